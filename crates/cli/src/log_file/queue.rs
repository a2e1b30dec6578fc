//! Lines of the log on their way to one destination, which a thread of its own writes. A destination
//! that is slow or is not read holds up the thread and never the server: the queue is bounded, and
//! lines that find it full are dropped and counted.

#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// The most lines that wait for a destination.
pub(super) const LINES_MAX: usize = 1024;
/// The longest line; a longer one is cut.
const LINE_BYTES_MAX: usize = 16 << 10;
/// How often a flush looks whether a full queue has room again.
const FLUSH_TICK: Duration = Duration::from_millis(5);

/// The end of a queue to which lines are added.
#[derive(Clone, Debug)]
pub(super) struct LineQueue {
    sender: SyncSender<Queued>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Queued {
    Line(Box<[u8]>),
    /// Everything before it is written when this is answered.
    Flush(SyncSender<()>),
}

impl LineQueue {
    /// Starts the thread that writes to a destination. `tell_dropped` is called there with the number
    /// of lines that were dropped, when there is room again.
    pub(super) fn to(
        destination: impl Write + Send + 'static,
        tell_dropped: fn(u64),
    ) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        let work = move || write_all(destination, &receiver, &counted, tell_dropped);
        std::thread::Builder::new().name("log".to_owned()).spawn(work)?;
        Ok(Self { sender, dropped })
    }

    /// Adds a line, or counts it if the queue is full. Never waits.
    pub(super) fn add(&self, line: &[u8]) {
        let line = match line.split_at_checked(LINE_BYTES_MAX) {
            Some((start, rest)) if !rest.is_empty() => [start, b"\n"].concat(),
            _ => line.to_vec(),
        };
        if self.sender.try_send(Queued::Line(line.into())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything is written, until `deadline` at most.
    pub(super) fn flush(&self, deadline: Instant) {
        let (answer, answered) = sync_channel(1);
        let mut flush = Queued::Flush(answer);
        loop {
            match self.sender.try_send(flush) {
                Ok(()) => break,
                Err(TrySendError::Full(unsent)) if Instant::now() < deadline => flush = unsent,
                Err(_) => return,
            }
            std::thread::sleep(FLUSH_TICK);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // After the deadline the log is what it is.
        let (Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected)) =
            answered.recv_timeout(left);
    }
}

fn write_all(
    mut destination: impl Write,
    queue: &Receiver<Queued>,
    dropped: &AtomicU64,
    tell_dropped: fn(u64),
) {
    for queued in queue {
        match queued {
            Queued::Line(line) => {
                // A full disk or a closed standard error loses the log, and must not stop the server.
                let _ = destination.write_all(&line);
            }
            Queued::Flush(answer) => {
                // The flush may have reached its deadline.
                let _ = answer.send(());
            }
        }
        let lines = dropped.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tell_dropped(lines);
        }
    }
}
