//! The journal of pending writes: those that a server has answered and not yet committed. Each is a
//! line of the file `silica.pending`, written before the caller is answered.
//!
//! A commit of SQLite takes longer than a short cell runs, and much longer with cold caches. A line
//! is one system call. If the process is killed no line is lost: the next process that opens the
//! store replays them. A line that had been committed is found in the database, so the journal need
//! not record how far it was committed.
//!
//! Each line carries an authentication code over itself and the code of the line before, made with
//! the key of the audit chain. A last line that was cut short had not been answered, and is
//! ignored. A file with other lines that do not fit their codes is kept under another name, and the
//! audit log gets a note.
//!
//! Never here: a write that the contents of the database could make fail. Its caller has been
//! answered and would not learn of the failure.

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

use crate::audit::{ChainKey, ExecutionLine, Note, append_note, pruned_at};
use crate::digest::{Digest, from_hex};
use crate::error::Failure;
use crate::file::StorePaths;
use crate::sandboxes::{EndLine, SandboxLine};
use crate::writer::LINGER;
use crate::{StoreError, Timestamp};

/// The longest line; a longer write is committed before it is answered.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The most pending writes. One more is committed directly, together with all of them: a longer
/// transaction would keep other processes from writing for too long.
const PENDING_MAX: usize = 256;
/// The length of the file beyond which nothing is added.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The pause between two attempts to lock the file.
const LOOK_PAUSE: Duration = Duration::from_millis(1);
/// How far the clock may have been set back before a line counts as older than what was pruned.
const CLOCK_STEP_MAX: Duration = Duration::from_mins(1);
/// The hexadecimal digits of a code.
const CODE_CHARS: usize = 64;

/// A write that was answered when it was in the journal. The names of the variants are part of the
/// file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Pending {
    /// The beginning or the end of an execution.
    Execution(ExecutionLine),
    /// A new sandbox.
    Sandbox(SandboxLine),
    /// The end of a sandbox.
    End(EndLine),
}

impl Pending {
    /// Returns the length of its text.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Execution(line) => line.bytes(),
            Self::Sandbox(line) => line.bytes(),
            Self::End(_) => 0,
        }
    }

    /// Inserts it into the database, in a transaction that has begun. Fails with a conflict if it
    /// is there already.
    pub(crate) fn insert(&self, connection: &Connection, chain: &ChainKey) -> Result<(), Failure> {
        match self {
            Self::Execution(line) => line.append(connection, chain),
            Self::Sandbox(line) => line.insert(connection),
            Self::End(line) => line.update(connection),
        }
    }

    /// Inserts it into the database unless it is there already.
    fn insert_once(&self, connection: &Connection, chain: &ChainKey) -> Result<(), Failure> {
        match self.insert(connection, chain) {
            // A conflict may have another cause: another program may have inserted a record with
            // the next number of the chain.
            Err(failure) if failure.is_conflict() && self.is_there(connection)? => Ok(()),
            other => other,
        }
    }

    /// Whether it is so old that it was committed and pruned: pruning commits all pending writes
    /// first. It comes from an earlier copy of the file, and would be a record of what is past.
    fn is_pruned(
        &self,
        connection: &Connection,
        pruned_at: Option<Timestamp>,
    ) -> Result<bool, Failure> {
        let (Self::Execution(line), Some(pruned_at)) = (self, pruned_at) else {
            return Ok(false);
        };
        Ok(line.time() < pruned_at.before(CLOCK_STEP_MAX) && !line.is_there(connection)?)
    }

    fn is_there(&self, connection: &Connection) -> Result<bool, Failure> {
        match self {
            Self::Execution(line) => line.is_there(connection),
            Self::Sandbox(line) => line.is_there(connection),
            Self::End(_) => Ok(false),
        }
    }
}

/// The file, open and locked, and the pending writes in it.
#[derive(Debug)]
pub(crate) struct Journal {
    chain: Arc<ChainKey>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` once it is closed.
    file: Option<File>,
    bytes: u64,
    /// The code of the last line.
    last: Digest,
    pending: VecDeque<Arc<Pending>>,
    /// A line could not be written, or a pending write not be committed. Nothing is added until all
    /// are committed.
    is_failing: bool,
    /// Nothing is added any more.
    is_closing: bool,
}

impl Journal {
    /// Opens the journal for a server, and replays what a process that died has left in it.
    pub(crate) fn open(
        paths: &StorePaths,
        chain: Arc<ChainKey>,
        connection: &Connection,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut file = paths.open_journal()?;
        // A tool that replays the journal holds the lock for a moment only.
        if !lock_within(&file, paths, paths.patience, || true)? {
            let error = io::Error::from(io::ErrorKind::WouldBlock);
            return Err(cannot("lock", paths)(error));
        }
        replay(&mut file, paths, &chain, connection, now)?;
        let state = State {
            file: Some(file),
            bytes: 0,
            last: Digest::ZERO,
            pending: VecDeque::new(),
            is_failing: false,
            is_closing: false,
        };
        Ok(Self { chain, state: Mutex::new(state) })
    }

    /// Adds a write, after which its caller may be answered. Returns false if it must be committed
    /// first.
    #[must_use]
    pub(crate) fn add(&self, pending: &Arc<Pending>) -> bool {
        let mut state = self.lock();
        let room = state.pending.len() < PENDING_MAX && state.bytes < FILE_BYTES_MAX;
        let is_open = room && !state.is_failing && !state.is_closing;
        let text = match serde_json::to_string(&**pending) {
            Ok(text) if is_open && text.len() <= LINE_BYTES_MAX => text,
            _ => return false,
        };
        let code = self.chain.line_code(&state.last, &text);
        let line = format!("{code} {text}\n");
        let Some(file) = &mut state.file else { return false };
        if file.write_all(line.as_bytes()).is_err() {
            // Nothing can follow an incomplete line. The caller commits directly, and gets the
            // error if that fails too.
            state.is_failing = true;
            return false;
        }
        state.bytes += line.len() as u64;
        state.last = code;
        state.pending.push_back(Arc::clone(pending));
        true
    }

    /// Whether there are no pending writes.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().pending.is_empty()
    }

    /// Inserts all pending writes in a transaction that has begun; returns how many. They stay
    /// pending until [`Journal::committed`] is called.
    pub(crate) fn insert_all(&self, connection: &Connection) -> Result<usize, Failure> {
        let pending: Vec<_> = self.lock().pending.iter().map(Arc::clone).collect();
        for one in &pending {
            one.insert_once(connection, &self.chain)?;
        }
        Ok(pending.len())
    }

    /// Removes the first `count` pending writes, which are committed. Empties the file if those
    /// were all.
    pub(crate) fn committed(&self, count: usize) {
        let mut state = self.lock();
        state.pending.drain(..count);
        if state.pending.is_empty() && (count > 0 || state.is_failing) {
            state.empty();
        }
    }

    /// Notes that the pending writes could not be committed: nothing is added until they are. Their
    /// callers have been answered, so the error is logged for the operator, once.
    pub(crate) fn failed(&self, error: &StoreError) {
        let mut state = self.lock();
        if !state.is_failing && !state.pending.is_empty() {
            state.is_failing = true;
            let error = error as &dyn std::error::Error;
            let count = state.pending.len();
            tracing::error!(
                error,
                count,
                "pending writes cannot be committed; they stay in silica.pending, to be tried again"
            );
        }
    }

    /// Lets nothing more be added, before the last pending writes are committed.
    pub(crate) fn stop(&self) {
        self.lock().is_closing = true;
    }

    /// Closes the file, and empties it if there are no pending writes.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if state.pending.is_empty() {
            state.empty();
        }
        state.file = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while it is held leaves at most a line in the file that is not in the list, which
        // the next start replays.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn empty(&mut self) {
        // If the file cannot be emptied, the next start replays it, which changes nothing.
        self.is_failing = self.file.as_ref().is_none_or(|file| file.set_len(0).is_err());
        self.bytes = 0;
        self.last = Digest::ZERO;
    }
}

/// Replays the journal of a process that died, for a tool or a reader. While a server runs, it
/// holds the lock and commits its pending writes every few milliseconds; this waits until the file
/// is empty, but not longer than a busy server may need.
pub(crate) fn replay_left(paths: &StorePaths, now: Timestamp) -> Result<(), StoreError> {
    // Without a database there is nothing to replay into; opening the database reports that.
    if !paths.has_journal() || !paths.database.exists() {
        return Ok(());
    }
    let opened = paths.open_journal().and_then(|mut file| {
        if !lock_within(&file, paths, 2 * LINGER, || paths.has_journal())? {
            return Ok(());
        }
        let connection = paths.open_for_writing(crate::Durability::Process)?;
        let chain = ChainKey::for_writing(&connection, paths)?;
        replay(&mut file, paths, &chain, &connection, now)
    });
    match opened {
        Err(StoreError::ReadOnly { .. }) => {
            Err(StoreError::Unclosed { path: paths.database.clone() })
        }
        replayed => replayed,
    }
}

/// Tries to lock the file for some time, as long as `wanted` returns true. Returns whether it is
/// locked.
fn lock_within(
    file: &File,
    paths: &StorePaths,
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
            Err(TryLockError::Error(error)) => return Err(cannot("lock", paths)(error)),
        }
    }
}

/// Inserts what is in the file into the database, in one transaction, and empties it.
fn replay(
    file: &mut File,
    paths: &StorePaths,
    chain: &ChainKey,
    connection: &Connection,
    now: Timestamp,
) -> Result<(), StoreError> {
    let contents = Contents::read(file, chain).map_err(cannot("read", paths))?;
    if contents.pending.is_empty() && !contents.is_foreign {
        return file.set_len(0).map_err(cannot("empty", paths));
    }
    let insert = || -> Result<usize, Failure> {
        let immediate = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(connection, immediate)?;
        let pruned_at = pruned_at(&transaction)?;
        let mut kept = 0;
        for one in &contents.pending {
            if !one.is_pruned(&transaction, pruned_at)? {
                one.insert_once(&transaction, chain)?;
                kept += 1;
            }
        }
        if contents.is_foreign || kept < contents.pending.len() {
            let note = Note::new("pending_rejected").with("lines_kept", &kept.to_string());
            append_note(&transaction, chain, now, &note)?;
        }
        transaction.commit()?;
        Ok(kept)
    };
    let kept = insert().map_err(|failure| paths.explain(failure))?;
    if contents.is_foreign || kept < contents.pending.len() {
        let copy = paths.journal().with_extension(format!("pending-{}", now.as_micros()));
        paths.make_private(&copy, &contents.bytes)?;
        tracing::error!(
            "lines of silica.pending do not fit their codes, or are older than what was pruned: \
             another program has changed the file, and not all of it was committed; it is kept \
             as {}",
            copy.display()
        );
    }
    tracing::info!(count = kept, "committed the pending writes of a process that died");
    file.set_len(0).map_err(cannot("empty", paths))
}

/// What a journal file holds.
struct Contents {
    bytes: Vec<u8>,
    pending: Vec<Pending>,
    /// Whether there are complete lines that do not fit their codes, or more than this program
    /// writes.
    is_foreign: bool,
}

impl Contents {
    fn read(file: &mut File, chain: &ChainKey) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let most = FILE_BYTES_MAX + 2 * LINE_BYTES_MAX as u64;
        file.take(most + 1).read_to_end(&mut bytes)?;
        let mut pending = Vec::new();
        let mut last = Digest::ZERO;
        let mut is_foreign = bytes.len() as u64 > most;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            // The last line may have been cut short; its caller had not been answered then.
            let Some(line) = line.strip_suffix(b"\n") else { break };
            let Some((one, code)) = parse(line, &last, chain) else {
                is_foreign = true;
                break;
            };
            pending.push(one);
            last = code;
        }
        Ok(Self { bytes, pending, is_foreign })
    }
}

fn parse(line: &[u8], last: &Digest, chain: &ChainKey) -> Option<(Pending, Digest)> {
    let (code, text) = std::str::from_utf8(line).ok()?.split_at_checked(CODE_CHARS)?;
    let code = Digest::from_bytes(from_hex(code)?);
    let text = text.strip_prefix(' ')?;
    let pending = (code == chain.line_code(last, text)).then(|| serde_json::from_str(text))?;
    Some((pending.ok()?, code))
}

fn cannot(what: &'static str, paths: &StorePaths) -> impl FnOnce(io::Error) -> StoreError {
    let path: PathBuf = paths.journal();
    move |error| StoreError::io(format!("cannot {what} {}", path.display()), error)
}
