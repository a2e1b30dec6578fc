//! Cells that end at once, late, and beside other cells.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{CELL_POLL_MAX, poll_for_next, run};

#[tokio::test]
async fn other_tasks_run_while_one_polls() {
    let (sender, receiver) = oneshot::channel();
    // On the only thread there is: if it only polled, this task would never run.
    tokio::spawn(async move { sender.send(7) });
    assert_eq!(run(receiver).await, Ok(7));
}

#[tokio::test]
async fn a_long_cell_is_not_polled_all_the_time() {
    let polls = std::cell::Cell::new(0_u32);
    let mut sleep = std::pin::pin!(tokio::time::sleep(Duration::from_millis(300)));
    run(std::future::poll_fn(|context| {
        polls.set(polls.get() + 1);
        sleep.as_mut().poll(context)
    }))
    .await;
    // Polling all the time would be some hundred thousand polls; a slow machine polls less often.
    let most = u32::try_from(CELL_POLL_MAX.as_nanos() / 100).expect("it is short");
    assert!(polls.get() <= most + 10, "polled {} times", polls.get());
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
async fn polling_for_the_next_cell_ends() {
    tokio::time::timeout(Duration::from_secs(10), async {
        run(async {}).await;
        poll_for_next().await;
    })
    .await
    .expect("it goes to sleep");
}
