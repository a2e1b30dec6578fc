//! Cells that end at once, late, and beside others.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{MOMENT, await_next, run};

#[tokio::test]
async fn others_have_their_turn_while_one_stays_awake() {
    let (sender, receiver) = oneshot::channel();
    // On the only thread there is: if that did nothing but look, nobody would send.
    tokio::spawn(async move { sender.send(7) });
    assert_eq!(run(receiver).await, Ok(7));
}

#[tokio::test]
async fn what_takes_long_is_slept_through() {
    let polls = std::cell::Cell::new(0_u32);
    let mut sleep = std::pin::pin!(tokio::time::sleep(Duration::from_millis(300)));
    run(std::future::poll_fn(|context| {
        polls.set(polls.get() + 1);
        sleep.as_mut().poll(context)
    }))
    .await;
    // Looking all the time would be some hundred thousand times; a slow machine looks less often.
    let most = u32::try_from(MOMENT.as_nanos() / 100).expect("a moment is short");
    assert!(polls.get() <= most + 10, "looked {} times", polls.get());
}

#[tokio::test]
async fn cells_side_by_side_all_end() {
    let cells = (0..20_u64).map(|number| {
        tokio::spawn(run(async move {
            tokio::time::sleep(Duration::from_micros(50 * number)).await;
            number
        }))
    });
    let mut sum = 0;
    for cell in cells.collect::<Vec<_>>() {
        sum += cell.await.expect("no cell panics");
    }
    assert_eq!(sum, 190);
}

#[tokio::test]
async fn whoever_sends_nothing_more_is_not_awaited_for_long() {
    tokio::time::timeout(Duration::from_secs(10), async {
        run(async {}).await;
        await_next().await;
    })
    .await
    .expect("it goes to sleep");
}
