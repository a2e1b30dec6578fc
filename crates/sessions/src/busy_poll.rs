//! Staying awake for what comes soon.
//!
//! Most cells are answered within a fraction of a millisecond. A thread that went to sleep meanwhile has to
//! be woken, mostly on a processor that has gone to sleep as well, which takes a good part of that time, and
//! on a virtual machine more. So the thread looks again and again for a moment instead, and does whatever
//! else there is to do in between. It does so only for a cell that runs alone: where there is more to do
//! nobody sleeps anyway, and the processor is better used.

#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long it is worth it: beyond, a wake-up more or less makes no difference.
const MOMENT: Duration = Duration::from_micros(150);

/// How long it may take to send the answer to one cell and to get the next.
const NEXT_MOMENT: Duration = Duration::from_micros(200);

/// Cells that run now, in all of the process.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Whether the guest has a processor to run on while one looks.
static HAS_COMPANY: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1));

/// One of those, as long as it is held.
struct Counted;

impl Counted {
    fn new() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a cell to its end, and stays awake for the first moment of it, and for what follows upon its answer.
pub(crate) async fn run<T>(cell: impl Future<Output = T>) -> T {
    let counted = Counted::new();
    let mut cell = pin!(cell);
    let end = Instant::now() + MOMENT;
    while are_running(1) && Instant::now() < end {
        tokio::select! {
            biased;
            done = cell.as_mut() => {
                drop(counted);
                tokio::spawn(await_next());
                return done;
            }
            () = give_way() => {}
        }
    }
    cell.await
}

/// Stays awake until the next cell, but only for a moment.
async fn await_next() {
    let end = Instant::now() + NEXT_MOMENT;
    while are_running(0) && Instant::now() < end {
        give_way().await;
    }
}

fn are_running(cells: usize) -> bool {
    *HAS_COMPANY && RUNNING.load(Ordering::Relaxed) == cells
}

/// Comes back as soon as everything that is ready has had its turn, here and elsewhere on this processor, where the
/// guest may have been woken.
async fn give_way() {
    tokio::task::yield_now().await;
    std::thread::yield_now();
}
