//! What a cell or command says, numbered, kept for a while, read by any number of clients.
//!
//! Readers come and go and go on where they left off. While one is attached, or has only just gone,
//! whoever writes waits for it (`poll_room`), so nothing is missed; while nobody listens the oldest is
//! dropped, and whoever comes later is told how much.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use silica_domain::{Bundle, CellError};
use silica_store::approvals::ApprovalRecord;
use tokio::sync::Notify;

/// What is kept for readers. More than the sockets between us and a client hold: what it never got
/// when its connection broke is still here when it comes back.
pub const LOG_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How far a writer may be ahead of the slowest reader.
const AHEAD_BYTES_MAX: u64 = LOG_BYTES_MAX as u64 / 8;

/// What an event costs beside its text.
const EVENT_BYTES: usize = 64;

/// How long a writer is held back for a reader that has gone and may come back.
const RECONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// How long a writer is held back for a reader that does not read.
const STALL_PATIENCE: Duration = Duration::from_secs(30);

/// Something that was said.
#[derive(Clone, Debug)]
pub enum Event {
    /// A person is asked about the cell, or has decided.
    Approval(Arc<ApprovalRecord>),
    /// The cell or command has started.
    Start,
    /// Text on stdout.
    Stdout(Text),
    /// Text on stderr.
    Stderr(Text),
    /// A result.
    Result(Arc<Bundle>),
    /// The exception that ends a cell.
    Error(Arc<CellError>),
    /// The end; nothing follows.
    Done,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// Text.
    Utf8(Arc<str>),
    /// Bytes that are none.
    Bytes(Arc<[u8]>),
}

impl Text {
    fn len(&self) -> usize {
        match self {
            Self::Utf8(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

impl Event {
    /// What it costs to keep. Results are kept with their cell anyway.
    fn cost(&self) -> usize {
        EVENT_BYTES
            + match self {
                Self::Stdout(text) | Self::Stderr(text) => text.len(),
                Self::Approval(_) | Self::Start | Self::Result(_) | Self::Error(_) | Self::Done => {
                    0
                }
            }
    }
}

/// What a reader gets.
#[derive(Clone, Debug)]
pub enum Read {
    /// The next event and its number.
    Event(u64, Event),
    /// So many events were dropped before the next.
    Gap(u64),
}

/// The events of one cell or command.
#[derive(Debug, Default)]
pub struct EventLog {
    inner: Mutex<Inner>,
    grown: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    events: VecDeque<Event>,
    /// The number of the first kept event, counted from 0.
    first: u64,
    kept: usize,
    /// The cost of everything ever said.
    total: u64,
    readers: HashMap<u64, Progress>,
    next_reader: u64,
    writer: Option<Waker>,
}

/// How far a reader has come.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// The cost of everything it has had.
    read: u64,
    since: Instant,
    attached: bool,
}

impl Inner {
    /// What the slowest reader that is waited for has yet to read.
    fn ahead(&self, now: Instant) -> u64 {
        let waited_for = |progress: &&Progress| {
            let patience = if progress.attached { STALL_PATIENCE } else { RECONNECT_PATIENCE };
            now.duration_since(progress.since) < patience
        };
        let slowest = self.readers.values().filter(waited_for).map(|progress| progress.read).min();
        slowest.map_or(0, |read| self.total - read.min(self.total))
    }

    fn is_done(&self) -> bool {
        matches!(self.events.back(), Some(Event::Done))
    }
}

impl EventLog {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Numbers only; a panic elsewhere leaves nothing halfway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event; drops the oldest beyond what is kept.
    pub(crate) fn push(&self, event: Event) {
        let mut inner = self.lock();
        let cost = event.cost();
        inner.total += cost as u64;
        inner.kept += cost;
        inner.events.push_back(event);
        while inner.kept > LOG_BYTES_MAX && inner.events.len() > 1 {
            let dropped = inner.events.pop_front().map_or(0, |event| event.cost());
            inner.kept -= dropped;
            inner.first += 1;
        }
        drop(inner);
        self.grown.notify_waiters();
    }

    /// Whether the writer may go on without leaving somebody behind.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().ahead(Instant::now()) < AHEAD_BYTES_MAX
    }

    /// Ready when [`Self::has_room`]; a reader that gives up is noticed by asking again.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if inner.ahead(Instant::now()) < AHEAD_BYTES_MAX {
            return Poll::Ready(());
        }
        inner.writer = Some(context.waker().clone());
        Poll::Pending
    }

    /// What is kept, in bytes.
    pub(crate) fn kept(&self) -> usize {
        self.lock().kept
    }

    /// Reads from the event after number `after`; 0 for all.
    pub fn read(self: &Arc<Self>, after: u64) -> Reader {
        let mut inner = self.lock();
        let id = inner.next_reader;
        inner.next_reader += 1;
        let next = after.min(inner.first + inner.events.len() as u64);
        let unread: usize = inner
            .events
            .iter()
            .skip(usize::try_from(next.saturating_sub(inner.first)).unwrap_or(usize::MAX))
            .map(Event::cost)
            .sum();
        let progress =
            Progress { read: inner.total - unread as u64, since: Instant::now(), attached: true };
        // Whoever comes back takes the place of those who have gone.
        inner.readers.retain(|_, progress| progress.attached);
        inner.readers.insert(id, progress);
        Reader { log: Arc::clone(self), id, next, over: false }
    }
}

/// One client's place in a log.
#[derive(Debug)]
pub struct Reader {
    log: Arc<EventLog>,
    id: u64,
    /// The number, from 0, of the event to read next.
    next: u64,
    over: bool,
}

impl Reader {
    /// The next event; `None` after the last.
    pub async fn next(&mut self) -> Option<Read> {
        loop {
            let log = Arc::clone(&self.log);
            let grown = log.grown.notified();
            tokio::pin!(grown);
            // Registered before looking, or a push in between would be slept through.
            grown.as_mut().enable();
            match self.try_next() {
                Poll::Ready(read) => return read,
                Poll::Pending => grown.await,
            }
        }
    }

    /// The next event if it is there.
    pub fn try_next(&mut self) -> Poll<Option<Read>> {
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
            return Poll::Ready(Some(Read::Gap(dropped)));
        }
        let index = usize::try_from(self.next - inner.first).unwrap_or(usize::MAX);
        let Some(event) = inner.events.get(index).cloned() else {
            self.over = inner.is_done();
            return if self.over { Poll::Ready(None) } else { Poll::Pending };
        };
        self.next += 1;
        let read = inner.readers.get(&self.id).map_or(0, |progress| progress.read);
        self.note(&mut inner, read + event.cost() as u64);
        Poll::Ready(Some(Read::Event(self.next, event)))
    }

    /// Notes how far this reader has come, and lets a waiting writer go on.
    fn note(&self, inner: &mut Inner, read: u64) {
        inner.readers.insert(self.id, Progress { read, since: Instant::now(), attached: true });
        if let Some(writer) = inner.writer.take() {
            writer.wake();
        }
    }
}

impl Drop for Reader {
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

/// Turns chunks of bytes into text, keeping a character that was cut in two until the rest comes.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    rest: Vec<u8>,
}

impl Decoder {
    /// The text of a chunk, wrong bytes replaced.
    pub(crate) fn text(&mut self, bytes: &[u8]) -> String {
        if self.rest.is_empty()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            return text.to_owned();
        }
        self.rest.extend_from_slice(bytes);
        let cut = incomplete_tail(&self.rest);
        let tail = self.rest.split_off(self.rest.len() - cut);
        let whole = std::mem::replace(&mut self.rest, tail);
        String::from_utf8_lossy(&whole).into_owned()
    }

    /// What is left when nothing more comes.
    pub(crate) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned()
    }
}

/// How many bytes at the end begin a character that could still be completed.
fn incomplete_tail(bytes: &[u8]) -> usize {
    for length in 1..=bytes.len().min(3) {
        let tail = &bytes[bytes.len() - length..];
        match std::str::from_utf8(tail) {
            Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => return length,
            Ok(_) => return 0,
            Err(_) => {}
        }
    }
    0
}
