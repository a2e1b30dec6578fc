//! More than fits, and the other side's end.

use std::io::Read;
use std::os::unix::net::UnixStream;

use tokio::io::AsyncReadExt;

use super::*;

fn pair() -> (FromGuestEnd, ToGuestEnd, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (from_guest, to_guest) = split(ours.into()).unwrap();
    (from_guest, to_guest, theirs)
}

#[tokio::test]
async fn more_than_fits_waits_for_the_reader() {
    let (from_guest, to_guest, mut theirs) = pair();
    let sent: Vec<u8> = (0..4_000_000_u32).map(|number| number as u8).collect();
    let expected = sent.clone();
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        theirs.read_to_end(&mut received).unwrap();
        received
    });
    to_guest.write_all(&sent).await.unwrap();
    drop((from_guest, to_guest));
    assert!(reader.join().unwrap() == expected);
}

#[tokio::test]
async fn end_and_broken_pipe_are_told() {
    let (mut from_guest, to_guest, theirs) = pair();
    drop(theirs);
    assert_eq!(from_guest.read(&mut [0; 10]).await.unwrap(), 0);
    let error = to_guest.write_all(b"words").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn words_arrive_while_a_write_waits() {
    let (mut from_guest, to_guest, mut theirs) = pair();
    let filler = vec![0; 4_000_000];
    let write = to_guest.write_all(&filler);
    tokio::pin!(write);
    let mut word = [0; 4];
    io::Write::write_all(&mut theirs, b"word").unwrap();
    tokio::select! {
        biased;
        _ = &mut write => panic!("nobody has read"),
        read = from_guest.read_exact(&mut word) => drop(read.unwrap()),
    }
    assert_eq!(&word, b"word");
}
