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
use std::time::Duration;

use tokio::time::Instant;

/// How long it is worth it: beyond, a wake-up more or less makes no difference.
const MOMENT: Duration = Duration::from_micros(150);

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

/// Runs a cell to its end, and stays awake for the first moment of it.
pub(crate) async fn run<T>(cell: impl Future<Output = T>) -> T {
    let _counted = Counted::new();
    let mut cell = pin!(cell);
    let end = Instant::now() + MOMENT;
    while *HAS_COMPANY && RUNNING.load(Ordering::Relaxed) == 1 && Instant::now() < end {
        tokio::select! {
            biased;
            done = cell.as_mut() => return done,
            // Comes back as soon as everything that is ready has had its turn.
            () = tokio::task::yield_now() => {}
        }
        // The guest may have been woken on this very processor.
        std::thread::yield_now();
    }
    cell.await
}
