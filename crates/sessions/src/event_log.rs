//! The log of a cell or command: numbered events in a bounded buffer, for any number of readers.
//!
//! A reader can leave and continue later where it left off. While a reader is attached, or has left only a moment
//! ago, the writer waits for it (`poll_room`), so that it misses nothing. Without readers the oldest events are
//! dropped, and a later reader gets a [`LogRead::Gap`] with their number.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use silica_domain::{Bundle, CellError, CommMessage};
use silica_store::approvals::ApprovalRecord;
use tokio::sync::Notify;

/// The most bytes of a log. This is more than the socket buffers between server and client hold, so that what a
/// client did not receive when its connection broke is still here when it reconnects.
pub const LOG_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The most bytes of a log whose key has no budget left while it has a reader, which still misses nothing. Without one it
/// keeps nothing.
const SHORT_LOG_BYTES_MAX: usize = 128 * 1024;

/// How many bytes a writer may be ahead of the slowest reader.
const AHEAD_BYTES_MAX: u64 = LOG_BYTES_MAX as u64 / 8;

/// How many bytes the writer of a short log may be ahead.
const SHORT_AHEAD_BYTES_MAX: u64 = SHORT_LOG_BYTES_MAX as u64 / 2;

/// What an event counts beside its text, in bytes.
const EVENT_BYTES: usize = 64;

/// How long a writer waits for a reader that has left and may return.
const RECONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// How long a writer waits for an attached reader that does not read.
const STALL_PATIENCE: Duration = Duration::from_secs(30);

/// An event of a cell or command.
#[derive(Clone, Debug)]
pub enum LogEvent {
    /// The cell waits for approval, or its approval was decided.
    Approval(Arc<ApprovalRecord>),
    /// The cell or command has started.
    Start,
    /// Text on stdout.
    Stdout(OutputText),
    /// Text on stderr.
    Stderr(OutputText),
    /// A result.
    Result(Arc<Bundle>),
    /// The exception that ends a cell.
    Error(Arc<CellError>),
    /// The code waits for a line. [`Cell::input`](crate::Cell::input) answers.
    Input {
        /// What it asks.
        prompt: Arc<str>,
        /// Whether the line must not be shown.
        password: bool,
    },
    /// What was shown before is to be removed.
    Clear {
        /// Whether to wait until something else is shown.
        wait: bool,
    },
    /// A message of a comm.
    Comm(Arc<CommMessage>),
    /// The cell or command has ended. This is the last event.
    Done,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputText {
    /// UTF-8.
    Utf8(Arc<str>),
    /// Bytes that are not UTF-8.
    Bytes(Arc<[u8]>),
}

impl OutputText {
    /// Returns its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "output is never empty")]
    pub fn len(&self) -> usize {
        match self {
            Self::Utf8(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

impl LogEvent {
    /// Returns what it counts in bytes. Results count for their cell, which keeps them.
    fn cost(&self) -> usize {
        EVENT_BYTES
            + match self {
                Self::Stdout(text) | Self::Stderr(text) => text.len(),
                Self::Error(error) => {
                    error.value.len() + error.traceback.iter().map(String::len).sum::<usize>()
                }
                Self::Input { prompt, .. } => prompt.len(),
                Self::Comm(comm) => usize::try_from(comm.bytes()).unwrap_or(usize::MAX),
                Self::Approval(_)
                | Self::Start
                | Self::Result(_)
                | Self::Clear { .. }
                | Self::Done => 0,
            }
    }
}

/// What a reader reads.
#[derive(Clone, Debug)]
pub enum LogRead {
    /// The next event and its number.
    Event(u64, LogEvent),
    /// This many events were dropped before the next one.
    Gap(u64),
}

/// The events of one cell or command.
#[derive(Debug, Default)]
pub struct EventLog {
    inner: Mutex<Inner>,
    grown: Notify,
}

/// How much a log keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Extent {
    #[default]
    Whole,
    /// The budget has no room: what an attached reader needs.
    Short,
    /// Nothing but the last event.
    Ended,
}

#[derive(Debug, Default)]
struct Inner {
    events: VecDeque<LogEvent>,
    extent: Extent,
    /// The number of the first kept event, counted from 0.
    first: u64,
    kept: usize,
    /// The bytes of all events ever pushed.
    total: u64,
    readers: HashMap<u64, Progress>,
    next_reader: u64,
    writer: Option<Waker>,
}

/// How far a reader has come.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// The bytes of all events that it has read or skipped.
    read: u64,
    since: Instant,
    attached: bool,
}

impl Inner {
    /// Returns how many bytes the slowest reader has yet to read, of those that the writer waits for; `None` if it waits
    /// for none.
    fn unread(&self, now: Instant) -> Option<u64> {
        let waited_for = |progress: &&Progress| {
            let patience = if progress.attached { STALL_PATIENCE } else { RECONNECT_PATIENCE };
            now.duration_since(progress.since) < patience
        };
        let slowest = self.readers.values().filter(waited_for).map(|progress| progress.read).min();
        slowest.map(|read| self.total - read.min(self.total))
    }

    /// Returns whether the writer may go on without waiting for a reader.
    fn has_room(&self, now: Instant) -> bool {
        let ahead_max = match self.extent {
            Extent::Whole => AHEAD_BYTES_MAX,
            Extent::Short | Extent::Ended => SHORT_AHEAD_BYTES_MAX,
        };
        self.unread(now).unwrap_or(0) < ahead_max
    }

    /// Returns the most bytes of all kept events.
    fn bytes_max(&self) -> usize {
        match self.extent {
            Extent::Whole => LOG_BYTES_MAX,
            Extent::Ended => 0,
            Extent::Short => match self.unread(Instant::now()) {
                // What a reader has yet to read stays. It is not much more: the writer waits for it.
                Some(unread) => {
                    usize::try_from(unread).unwrap_or(usize::MAX).max(SHORT_LOG_BYTES_MAX)
                }
                None => 0,
            },
        }
    }

    /// Drops the oldest events beyond what may be kept, but for the end.
    fn trim(&mut self) {
        // Most pushes are far from every bound.
        if self.kept <= SHORT_LOG_BYTES_MAX && self.extent == Extent::Whole {
            return;
        }
        let bytes_max = self.bytes_max();
        while self.kept > bytes_max && !matches!(self.events.front(), Some(LogEvent::Done)) {
            let dropped = self.events.pop_front().map_or(0, |event| event.cost());
            self.kept -= dropped;
            self.first += 1;
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.events.back(), Some(LogEvent::Done))
    }
}

impl EventLog {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock is held leaves no broken invariant: nothing in between can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event, and drops the oldest ones beyond what may be kept. Returns the bytes that are kept.
    pub(crate) fn push(&self, event: LogEvent) -> usize {
        let mut inner = self.lock();
        let cost = event.cost();
        inner.total += cost as u64;
        inner.kept += cost;
        inner.events.push_back(event);
        inner.trim();
        let kept = inner.kept;
        drop(inner);
        self.grown.notify_waiters();
        kept
    }

    /// Keeps only what attached readers need from now on: there is no budget for more. Later readers get a gap.
    pub(crate) fn shorten(&self) {
        let mut inner = self.lock();
        if inner.extent == Extent::Whole {
            inner.extent = Extent::Short;
        }
        inner.trim();
    }

    /// Drops all events of a log that has ended but the last. Later readers get a gap for the others.
    pub(crate) fn drop_events(&self) {
        let mut inner = self.lock();
        inner.extent = Extent::Ended;
        inner.trim();
    }

    /// Returns whether a client is reading it.
    pub(crate) fn has_readers(&self) -> bool {
        self.lock().readers.values().any(|progress| progress.attached)
    }

    /// Returns whether the writer may go on without waiting for a reader.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().has_room(Instant::now())
    }

    /// Is ready when [`Self::has_room`]. A reader that times out does not wake the writer, which must poll again.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if inner.has_room(Instant::now()) {
            return Poll::Ready(());
        }
        inner.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// Attaches a reader that begins after the event with number `after`; 0 for all events.
    pub fn read(self: &Arc<Self>, after: u64) -> LogReader {
        let mut inner = self.lock();
        let id = inner.next_reader;
        inner.next_reader += 1;
        let next = after.min(inner.first + inner.events.len() as u64);
        let unread: usize = inner
            .events
            .iter()
            .skip(usize::try_from(next.saturating_sub(inner.first)).unwrap_or(usize::MAX))
            .map(LogEvent::cost)
            .sum();
        let progress =
            Progress { read: inner.total - unread as u64, since: Instant::now(), attached: true };
        // A new reader replaces the readers that have left, so that the writer waits for them no more.
        inner.readers.retain(|_, progress| progress.attached);
        inner.readers.insert(id, progress);
        LogReader { log: Arc::clone(self), id, next, over: false }
    }
}

/// The position of one client in a log.
#[derive(Debug)]
pub struct LogReader {
    log: Arc<EventLog>,
    id: u64,
    /// The number, from 0, of the event to read next.
    next: u64,
    over: bool,
}

impl LogReader {
    /// Waits for the next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<LogRead> {
        loop {
            let log = Arc::clone(&self.log);
            let grown = log.grown.notified();
            tokio::pin!(grown);
            // Registered before the check, so that a push in between is not missed.
            grown.as_mut().enable();
            match self.try_next() {
                Poll::Ready(read) => return read,
                Poll::Pending => grown.await,
            }
        }
    }

    /// Returns the next event if there is one.
    pub fn try_next(&mut self) -> Poll<Option<LogRead>> {
        if self.over {
            return Poll::Ready(None);
        }
        let mut inner = self.log.lock();
        if self.next < inner.first {
            let dropped = inner.first - self.next;
            self.next = inner.first;
            let kept = inner.kept as u64;
            let read = inner.total - kept;
            self.note(&mut inner, read);
            return Poll::Ready(Some(LogRead::Gap(dropped)));
        }
        let index = usize::try_from(self.next - inner.first).unwrap_or(usize::MAX);
        let Some(event) = inner.events.get(index).cloned() else {
            self.over = inner.is_done();
            return if self.over { Poll::Ready(None) } else { Poll::Pending };
        };
        self.next += 1;
        let read = inner.readers.get(&self.id).map_or(0, |progress| progress.read);
        self.note(&mut inner, read + event.cost() as u64);
        Poll::Ready(Some(LogRead::Event(self.next, event)))
    }

    /// Notes how far this reader has come, and wakes a waiting writer.
    fn note(&self, inner: &mut Inner, read: u64) {
        inner.readers.insert(self.id, Progress { read, since: Instant::now(), attached: true });
        if let Some(writer) = inner.writer.take() {
            writer.wake();
        }
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        let mut inner = self.log.lock();
        if let Some(progress) = inner.readers.get_mut(&self.id) {
            progress.attached = false;
            progress.since = Instant::now();
        }
        if self.over || inner.is_done() {
            inner.readers.remove(&self.id);
        }
        if let Some(writer) = inner.writer.take() {
            writer.wake();
        }
    }
}
