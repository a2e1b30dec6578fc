//! Bodies that end, that break off, and that let the connection flush what came before.

use futures_util::FutureExt;
use silica_sessions::{Admission, Budget, Capacity, Quota};

use super::*;

const BUDGET: Budget =
    Budget { in_flight_bytes: 1000, kept_bytes: 1000, transfers: 2, connections: 2 };

fn admission() -> Admission {
    let quota = Quota {
        requests_per_second: 10.0,
        request_burst: 5.0,
        sandboxes: 2,
        running: 2,
        queued: 8,
        upload_bytes_per_minute: 1000,
        output_bytes_per_minute: 1000,
        audit_bytes_per_minute: 1000,
        cpu_seconds_per_minute: 10,
        budget: BUDGET,
    };
    let capacity =
        Capacity { running: 1, reserved: 0, queued: 12, sandboxes: 3, creating: 2, budget: BUDGET };
    Admission::new(quota, capacity)
}

async fn transfer_of(admission: &Admission) -> Transfer {
    let permit = admission.transfer(&Tenant::parse("a").unwrap()).await.unwrap();
    Transfer { permit: Arc::new(permit), session: None }
}

async fn transfer() -> Transfer {
    transfer_of(&admission()).await
}

/// A client that leaves does not end the thread that makes its body: the next one must wait for it.
#[tokio::test]
async fn a_transfer_lasts_as_long_as_its_thread() {
    let admission = admission();
    let transfer = transfer_of(&admission).await;
    let (go_on, waiting) = std::sync::mpsc::channel::<()>();
    let pieces = write_pieces(transfer, move |_| waiting.recv().map_err(io::Error::other));
    drop(pieces.unwrap());
    let held = || admission.held(None, silica_sessions::Resource::Transfers);
    assert_eq!(held(), 1);
    go_on.send(()).unwrap();
    for _ in 0..500 {
        if held() == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the permit was not given back");
}

#[tokio::test]
async fn error_in_a_body_comes_after_a_flush() {
    let (sender, receiver) = mpsc::channel(2);
    sender.send(Ok(Bytes::from_static(b"x"))).await.unwrap();
    sender.send(Err(io::ErrorKind::UnexpectedEof.into())).await.unwrap();
    let mut pieces = Pieces { receiver, _permit: transfer().await.permit };
    assert!(pieces.next().now_or_never().unwrap().unwrap().is_ok());
    // Nothing is ready at first, which is when a connection flushes.
    let mut last = Box::pin(pieces.next());
    assert!(last.as_mut().now_or_never().is_none());
    assert!(last.await.unwrap().is_err());
}

#[tokio::test]
async fn a_body_that_is_written_ends_or_breaks_off() {
    let mut whole =
        write_pieces(transfer().await, |pipe| io::Write::write_all(pipe, b"whole")).unwrap();
    assert_eq!(whole.next().await.unwrap().unwrap(), "whole");
    assert!(whole.next().await.is_none());

    let broken = write_pieces(transfer().await, |pipe| {
        io::Write::write_all(pipe, b"half")?;
        Err(io::ErrorKind::InvalidData.into())
    });
    let mut broken = broken.unwrap();
    assert_eq!(broken.next().await.unwrap().unwrap_err().kind(), io::ErrorKind::InvalidData);

    let mut panicked = write_pieces(transfer().await, |_| panic!("a bug")).unwrap();
    assert!(panicked.next().await.unwrap().is_err(), "a body without its end is an error");
}

#[tokio::test]
async fn a_body_that_is_read_has_all_pieces_in_order() {
    let mut pieces = read_pieces(transfer().await, 0_u8, |count| {
        *count += 1;
        Ok(if *count > 5 { Bytes::new() } else { Bytes::copy_from_slice(&[*count]) })
    });
    let mut all = Vec::new();
    while let Some(piece) = pieces.next().await {
        all.extend_from_slice(&piece.unwrap());
    }
    assert_eq!(all, [1, 2, 3, 4, 5]);
}
