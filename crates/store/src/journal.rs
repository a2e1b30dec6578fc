//! What was promised and is not in the database yet: a line of a file each (`silica.pending`), written before
//! whoever asked is answered.
//!
//! A commit of SQLite's takes longer than a short cell runs, and much longer with cold caches. A line is one
//! system call. A killed process loses no line; the next one that opens the store finds them and keeps the
//! promises. One that has been kept is found in the database, so nobody has to note how far he came.
//!
//! Each line carries a code over itself and the code of the line before, by the key of the audit chain. A line
//! that was cut short was promised to nobody. Lines that do not fit their codes are put aside as they are, and
//! the audit log says so.
//!
//! Never here: anything that could be refused by what the database holds. Whoever is answered hears of no
//! failure after that.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde::{Deserialize, Serialize};

use crate::audit::{ChainKey, ExecutionLine, Note, append_note};
use crate::digest::{Digest, from_hex};
use crate::error::Failure;
use crate::file::Place;
use crate::sandboxes::{EndLine, SandboxLine};
use crate::writer::LINGER;
use crate::{StoreError, Timestamp};

/// The longest promise; what is longer goes straight into the database.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Promises that may wait to be kept. Whoever brings one more keeps them all: more in one transaction would keep
/// other processes from writing for too long.
const WAITING_MAX: usize = 256;
/// The longest file.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How often a reader looks whether a server has kept its promises.
const LOOK_PAUSE: Duration = Duration::from_millis(1);
/// The hexadecimal digits of a code.
const CODE_CHARS: usize = 64;

/// Something that whoever asked for it takes as done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Promise {
    /// An execution begins or has ended.
    Execution(ExecutionLine),
    /// A sandbox runs.
    Sandbox(SandboxLine),
    /// It has ended.
    End(EndLine),
}

impl Promise {
    /// Puts it into the database, in a transaction that somebody has begun; a conflict if it is there.
    pub(crate) fn insert(&self, connection: &Connection, chain: &ChainKey) -> Result<(), Failure> {
        match self {
            Self::Execution(line) => line.append(connection, chain),
            Self::Sandbox(line) => line.insert(connection),
            Self::End(line) => line.update(connection),
        }
    }

    /// The same, and nothing if it is there.
    fn keep(&self, connection: &Connection, chain: &ChainKey) -> Result<(), Failure> {
        match self.insert(connection, chain) {
            // A conflict may be about something else: somebody may have put a record where the next belongs.
            Err(failure) if failure.is_conflict() && self.is_kept(connection)? => Ok(()),
            other => other,
        }
    }

    fn is_kept(&self, connection: &Connection) -> Result<bool, Failure> {
        match self {
            Self::Execution(line) => line.is_there(connection),
            Self::Sandbox(line) => line.is_there(connection),
            Self::End(_) => Ok(false),
        }
    }
}

/// The file, open and locked, and what in it has to be kept.
#[derive(Debug)]
pub(crate) struct Journal {
    chain: Arc<ChainKey>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Nothing once it is closed.
    file: Option<File>,
    bytes: u64,
    /// The code of the last line.
    last: Digest,
    waiting: VecDeque<Arc<Promise>>,
    /// A promise could not be written or kept: no more is promised until all are kept.
    ailing: bool,
    /// No more is promised.
    closing: bool,
}

impl Journal {
    /// Opens it for the one server there is, with what another one has left in it.
    pub(crate) fn open(
        place: &Place,
        chain: Arc<ChainKey>,
        connection: &Connection,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut file = place.open_journal()?;
        // Whoever settles what was left holds the lock for a moment only.
        if !lock_within(&file, place, place.patience, || true)? {
            let error = io::Error::from(io::ErrorKind::WouldBlock);
            return Err(cannot("lock", place)(error));
        }
        settle(&mut file, place, &chain, connection, now)?;
        let (file, waiting, last) = (Some(file), VecDeque::new(), Digest::ZERO);
        let state =
            Mutex::new(State { file, bytes: 0, last, waiting, ailing: false, closing: false });
        Ok(Self { chain, state })
    }

    /// Writes a promise down, after which it counts as done; false if that is not possible now.
    #[must_use]
    pub(crate) fn add(&self, promise: &Arc<Promise>) -> bool {
        let mut state = self.lock();
        let room = state.waiting.len() < WAITING_MAX && state.bytes < FILE_BYTES_MAX;
        let open = room && !state.ailing && !state.closing;
        let text = match serde_json::to_string(&**promise) {
            Ok(text) if open && text.len() <= LINE_BYTES_MAX => text,
            _ => return false,
        };
        let code = self.chain.line_code(&state.last, &text);
        let line = format!("{code} {text}\n");
        let Some(file) = &mut state.file else { return false };
        if file.write_all(line.as_bytes()).is_err() {
            // Behind a piece of a line nothing can be written. Whoever goes the long way is told what is wrong.
            state.ailing = true;
            return false;
        }
        state.bytes += line.len() as u64;
        state.last = code;
        state.waiting.push_back(Arc::clone(promise));
        true
    }

    /// Whether there is nothing to be kept.
    pub(crate) fn is_settled(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Keeps all promises in a transaction that somebody has begun; returns how many. They wait on until
    /// [`Journal::committed`] is told of them.
    pub(crate) fn keep_all(&self, connection: &Connection) -> Result<usize, Failure> {
        let waiting: Vec<_> = self.lock().waiting.iter().map(Arc::clone).collect();
        for promise in &waiting {
            promise.keep(connection, &self.chain)?;
        }
        Ok(waiting.len())
    }

    /// The first so many are in the database. When that is all the file is emptied.
    pub(crate) fn committed(&self, count: usize) {
        let mut state = self.lock();
        state.waiting.drain(..count);
        if state.waiting.is_empty() && (count > 0 || state.ailing) {
            state.empty();
        }
    }

    /// They could not be kept: until they are, nothing more is promised. Whoever was promised something does not
    /// hear of it, so the operator does, once.
    pub(crate) fn failed(&self, error: &StoreError) {
        let mut state = self.lock();
        if !state.ailing && !state.waiting.is_empty() {
            state.ailing = true;
            let (error, count) = (error as &dyn std::error::Error, state.waiting.len());
            tracing::error!(error, count, "what was promised cannot be written; it stays promised");
        }
    }

    /// Promises no more, before the last ones are kept.
    pub(crate) fn stop(&self) {
        self.lock().closing = true;
    }

    /// Gives it to whoever comes next, empty if everything in it was kept.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if state.waiting.is_empty() {
            state.empty();
        }
        state.file = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic within the few lines that hold it would leave a promise written and not waiting, which
        // the next start keeps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn empty(&mut self) {
        // What cannot be emptied is kept again by the next start, without harm.
        self.ailing = self.file.as_ref().is_none_or(|file| file.set_len(0).is_err());
        (self.bytes, self.last) = (0, Digest::ZERO);
    }
}

/// Keeps what a process that died has promised, for somebody who only looks or stays for a moment. If a server is
/// there this is left to it, which it does every few milliseconds; what a busy one promises meanwhile is not
/// waited for.
pub(crate) fn settle_left(place: &Place, now: Timestamp) -> Result<(), StoreError> {
    // Without a database there is nothing to keep a promise in, which whoever opens it is told.
    if !place.has_journal() || !place.database.exists() {
        return Ok(());
    }
    let opened = place.open_journal().and_then(|mut file| {
        if !lock_within(&file, place, 2 * LINGER, || place.has_journal())? {
            return Ok(());
        }
        let connection = place.open_for_writing(crate::Durability::Process)?;
        let chain = ChainKey::for_writing(&connection, place)?;
        settle(&mut file, place, &chain, &connection, now)
    });
    match opened {
        Err(StoreError::ReadOnly { .. }) => {
            Err(StoreError::Unclosed { path: place.database.clone() })
        }
        settled => settled,
    }
}

/// Takes the lock if it can be had within a time, and while it is wanted; tells whether it was.
fn lock_within(
    file: &File,
    place: &Place,
    patience: Duration,
    wanted: impl Fn() -> bool,
) -> Result<bool, StoreError> {
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if wanted() && Instant::now() < until => {
                std::thread::sleep(LOOK_PAUSE);
            }
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(cannot("lock", place)(error)),
        }
    }
}

/// Keeps what is in the file, in one transaction, and empties it.
fn settle(
    file: &mut File,
    place: &Place,
    chain: &ChainKey,
    connection: &Connection,
    now: Timestamp,
) -> Result<(), StoreError> {
    let left = Left::read(file, chain).map_err(cannot("read", place))?;
    if left.promises.is_empty() && !left.is_foreign {
        return file.set_len(0).map_err(cannot("empty", place));
    }
    let keep = || -> Result<(), Failure> {
        let immediate = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(connection, immediate)?;
        for promise in &left.promises {
            promise.keep(&transaction, chain)?;
        }
        if left.is_foreign {
            let kept = left.promises.len().to_string();
            let note = Note::new("pending_rejected").with("lines_kept", &kept);
            append_note(&transaction, chain, now, &note)?;
        }
        Ok(transaction.commit()?)
    };
    keep().map_err(|failure| place.explain(failure))?;
    if left.is_foreign {
        let aside = place.journal().with_extension(format!("pending-{}", now.as_micros()));
        place.make_private(&aside, &left.bytes)?;
        tracing::error!("pending lines were changed by others; they are in {}", aside.display());
    }
    tracing::info!(count = left.promises.len(), "kept what a process that died had promised");
    file.set_len(0).map_err(cannot("empty", place))
}

/// What was found in the file.
struct Left {
    bytes: Vec<u8>,
    promises: Vec<Promise>,
    /// There are whole lines that do not fit their codes, or more than this program writes.
    is_foreign: bool,
}

impl Left {
    fn read(file: &mut File, chain: &ChainKey) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let most = FILE_BYTES_MAX + 2 * LINE_BYTES_MAX as u64;
        file.take(most + 1).read_to_end(&mut bytes)?;
        let (mut promises, mut last) = (Vec::new(), Digest::ZERO);
        let mut is_foreign = bytes.len() as u64 > most;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            // The last one may have been cut short, and was then promised to nobody.
            let Some(line) = line.strip_suffix(b"\n") else { break };
            let Some((promise, code)) = parse(line, &last, chain) else {
                is_foreign = true;
                break;
            };
            promises.push(promise);
            last = code;
        }
        Ok(Self { bytes, promises, is_foreign })
    }
}

fn parse(line: &[u8], last: &Digest, chain: &ChainKey) -> Option<(Promise, Digest)> {
    let (code, text) = std::str::from_utf8(line).ok()?.split_at_checked(CODE_CHARS)?;
    let (code, text) = (Digest::from_bytes(from_hex(code)?), text.strip_prefix(' ')?);
    let promise = (code == chain.line_code(last, text)).then(|| serde_json::from_str(text))?;
    Some((promise.ok()?, code))
}

fn cannot(what: &'static str, place: &Place) -> impl FnOnce(io::Error) -> StoreError {
    let path: PathBuf = place.journal();
    move |error| StoreError::io(format!("cannot {what} {}", path.display()), error)
}
