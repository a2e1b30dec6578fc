//! Busy polling for the first moments of a cell.
//!
//! Most cells end within a fraction of a millisecond. A thread that sleeps meanwhile has to be woken, mostly on a
//! processor that sleeps as well; that takes a good part of that time, and more on a virtual machine. So the thread
//! polls for a short time instead, and runs other tasks in between. It does so only for a cell that runs alone:
//! with more cells the threads have other work, and the processor is better used for that.

#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a cell is polled. A cell that takes longer does not gain from one wake-up less.
const CELL_POLL_MAX: Duration = Duration::from_micros(150);

/// How long the next cell is polled for: the time to send an answer and to receive the next request.
const NEXT_POLL_MAX: Duration = Duration::from_micros(200);

/// Cells that run now, in the whole process.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Whether the guest has a processor to run on while a thread of the server polls.
static IS_MULTIPROCESSOR: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1));

/// Counts a running cell until it is dropped.
struct RunningCell;

impl RunningCell {
    fn new() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for RunningCell {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a cell to its end: polls it for `CELL_POLL_MAX`, then sleeps. If it ends while it is polled, polls for the
/// next cell too.
pub(crate) async fn run<T>(cell: impl Future<Output = T>) -> T {
    let running = RunningCell::new();
    let mut cell = pin!(cell);
    let end = Instant::now() + CELL_POLL_MAX;
    while are_running(1) && Instant::now() < end {
        tokio::select! {
            biased;
            done = cell.as_mut() => {
                drop(running);
                tokio::spawn(poll_for_next());
                return done;
            }
            () = yield_now() => {}
        }
    }
    cell.await
}

/// Keeps a thread awake until the next cell begins, for at most `NEXT_POLL_MAX`.
async fn poll_for_next() {
    let end = Instant::now() + NEXT_POLL_MAX;
    while are_running(0) && Instant::now() < end {
        yield_now().await;
    }
}

fn are_running(cells: usize) -> bool {
    *IS_MULTIPROCESSOR && RUNNING.load(Ordering::Relaxed) == cells
}

/// Lets other tasks of the runtime run, and other threads of this processor, of which the guest may be one.
async fn yield_now() {
    tokio::task::yield_now().await;
    std::thread::yield_now();
}
