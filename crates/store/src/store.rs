//! The store: its options, opening and closing it, and the ways to read and write.

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::approvals::Approvals;
use crate::audit::{Audit, AuditSettings, ChainKey};
use crate::error::Failure;
use crate::file::StorePaths;
use crate::housekeeper::Housekeeper;
use crate::journal::{self, Journal, Pending};
use crate::keys::{KeyCache, Keys};
use crate::reader::{Read, ReadTurns, Readers};
use crate::sandboxes::Sandboxes;
use crate::secrets::Secrets;
use crate::writer::{Write, Writer};
use crate::{StoreError, Timestamp};

/// How long a writer waits for another process by default.
const PATIENCE: Duration = Duration::from_secs(5);

/// The purpose for which the file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A server. There is at most one at a time; it does the housekeeping.
    Server,
    /// A short-lived process that writes, beside a server or without one.
    Tool,
    /// A process that only reads.
    ReadOnly,
}

/// What a write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A crash of this process. A power failure can lose the last seconds, and leaves a consistent
    /// file and a chain that verifies.
    Process,
    /// A power failure too. Every commit waits for the disk.
    Machine,
}

/// A source of the current time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Returns the clock of this machine.
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    /// Returns a clock that calls `now`.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Clock")
    }
}

/// The options with which a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The purpose.
    pub access: Access,
    /// What a write survives.
    pub durability: Durability,
    /// How long to wait while another process is writing.
    pub patience: Duration,
    /// What the audit log keeps.
    pub audit: AuditSettings,
    /// How long records of ended sandboxes are kept; `None` for ever.
    pub ended_kept: Option<Duration>,
    /// How many records of ended sandboxes are kept, the newest; `None` for all.
    pub ended_max: Option<u64>,
    /// The time of records.
    pub clock: Clock,
}

impl StoreOptions {
    /// Returns the default options for a purpose.
    pub fn new(access: Access) -> Self {
        Self {
            access,
            durability: Durability::Process,
            patience: PATIENCE,
            audit: AuditSettings::default(),
            ended_kept: None,
            ended_max: None,
            clock: Clock::system(),
        }
    }
}

/// A handle on the store; clones are cheap and refer to the same store.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    paths: StorePaths,
    options: StoreOptions,
    readers: Arc<Readers>,
    keys: Arc<KeyCache>,
    /// `None` where the store is only read.
    writing: Option<Writing>,
    /// The lock of a server.
    lock: Mutex<Option<File>>,
}

/// What a store that may write has.
#[derive(Debug)]
struct Writing {
    writer: Writer,
    chain: Arc<ChainKey>,
}

impl Store {
    /// Opens the database at `path`. Creates it if it does not exist and is to be written. Its
    /// other files are in the same directory.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let paths = StorePaths { database: path.to_owned(), patience: options.patience };
        let lock = match options.access {
            Access::Server => Some(paths.lock_for_server()?),
            Access::Tool | Access::ReadOnly => None,
        };
        let turns = ReadTurns::new();
        let writing = match options.access {
            Access::Server | Access::Tool => Some(Writing::start(&paths, &options, turns.clone())?),
            Access::ReadOnly => {
                replay_for_reading(&paths, &options.clock)?;
                None
            }
        };
        let readers = Readers::open(paths.clone(), options.access, turns)?;
        let keys = Arc::default();
        let lock = Mutex::new(lock);
        Ok(Self { inner: Arc::new(Inner { paths, options, readers, keys, writing, lock }) })
    }

    /// The keys of clients.
    pub fn keys(&self) -> Keys<'_> {
        Keys::new(self)
    }

    /// The records of sandboxes.
    pub fn sandboxes(&self) -> Sandboxes<'_> {
        Sandboxes::new(self)
    }

    /// The executions that wait for a person.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals::new(self)
    }

    /// The secrets of keys.
    pub fn secrets(&self) -> Secrets<'_> {
        Secrets::new(self)
    }

    /// The audit log.
    pub fn audit(&self) -> Audit<'_> {
        Audit::new(self)
    }

    /// Closes the file after all queued writes. Writes of other handles fail with
    /// [`StoreError::Closed`] from then on.
    pub async fn close(&self) {
        // The writer is closed last: only then can SQLite move the write-ahead log into the file.
        self.inner.readers.close();
        if let Some(writing) = &self.inner.writing {
            writing.writer.close().await;
        }
        self.unlock();
    }

    /// Does what [`Store::close`] does, and blocks. Must not be called in an async task.
    pub fn close_wait(&self) {
        self.inner.readers.close();
        if let Some(writing) = &self.inner.writing {
            writing.writer.close_wait();
        }
        self.unlock();
    }

    fn unlock(&self) {
        drop(self.inner.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    pub(crate) fn paths(&self) -> &StorePaths {
        &self.inner.paths
    }

    pub(crate) fn settings(&self) -> &AuditSettings {
        &self.inner.options.audit
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.options.clock.now()
    }

    pub(crate) fn key_cache(&self) -> &Arc<KeyCache> {
        &self.inner.keys
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.inner.readers
    }

    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Read<T> {
        let writer = self.inner.writing.as_ref().map(|writing| writing.writer.clone());
        self.inner.readers.prepare(writer, work)
    }

    /// Prepares a read of what is committed.
    pub(crate) fn read_committed<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Read<T> {
        self.inner.readers.prepare(None, work)
    }

    /// Waits until pending writes are committed.
    pub(crate) async fn flushed(&self) -> Result<(), StoreError> {
        self.read(|_| Ok(())).await
    }

    /// Commits pending and deferred writes, so that they can be read.
    pub(crate) fn flush(&self) {
        if let Some(writing) = &self.inner.writing {
            writing.writer.flush();
        }
    }

    /// Prepares a write that a server may answer when it is in the journal. Otherwise it is
    /// committed first, and `conflict` is the error if the database already holds it.
    pub(crate) fn write_pending<T: Send + 'static>(
        &self,
        pending: Pending,
        value: T,
        conflict: fn(&T) -> StoreError,
    ) -> Write<T> {
        match &self.inner.writing {
            Some(Writing { writer, chain }) => {
                writer.write_pending(pending, value, Arc::clone(chain), conflict)
            }
            None => self.refused(),
        }
    }

    /// Prepares a write.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Write<T> {
        self.write_chained(move |connection, _| work(connection), || ())
    }

    /// Prepares a write that also adds to the audit log; `after` is called once it is committed.
    pub(crate) fn write_chained<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &ChainKey) -> Result<T, Failure> + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) -> Write<T> {
        match &self.inner.writing {
            Some(Writing { writer, chain }) => {
                let chain = Arc::clone(chain);
                writer.write(move |connection| work(connection, &chain), after)
            }
            None => self.refused(),
        }
    }

    fn refused<T: Send + 'static>(&self) -> Write<T> {
        Write::refused(StoreError::ReadOnly { path: self.inner.paths.database.clone() })
    }
}

/// Replays the journal of a server that died, so that a reader sees its pending writes.
fn replay_for_reading(paths: &StorePaths, clock: &Clock) -> Result<(), StoreError> {
    match journal::replay_left(paths, clock.now()) {
        // A reader may want to examine just that, with `silica audit verify`.
        Err(
            StoreError::AuditBroken
            | StoreError::AuditKeyMissing { .. }
            | StoreError::KeyFileMalformed { .. }
            | StoreError::KeyFileExposed { .. }
            | StoreError::AuditKeyWrong { .. }
            | StoreError::Damaged { .. },
        ) => Ok(()),
        replayed => replayed,
    }
}

impl Writing {
    fn start(
        paths: &StorePaths,
        options: &StoreOptions,
        turns: ReadTurns,
    ) -> Result<Self, StoreError> {
        let connection = paths.open_for_writing(options.durability)?;
        let chain = Arc::new(ChainKey::for_writing(&connection, paths)?);
        let now = options.clock.now();
        let journal = match (options.access, options.durability) {
            (Access::Server, Durability::Process) => {
                Some(Journal::open(paths, Arc::clone(&chain), &connection, now)?)
            }
            // The journal does not survive a power failure, so nothing is added to it. What another
            // server has left in it is replayed.
            (Access::Server, Durability::Machine) => {
                Journal::open(paths, Arc::clone(&chain), &connection, now)?.close();
                None
            }
            (Access::Tool | Access::ReadOnly, _) => {
                journal::replay_left(paths, now)?;
                None
            }
        };
        let housekeeper =
            (options.access == Access::Server).then(|| Housekeeper::new(paths, options));
        let checkpoint_due = housekeeper.as_ref().map(Housekeeper::checkpoint_due);
        let writer =
            Writer::start(connection, paths.clone(), options.durability, journal, checkpoint_due)?;
        if let Some(housekeeper) = housekeeper {
            housekeeper.start(writer.downgrade(), Arc::clone(&chain), turns)?;
        }
        Ok(Self { writer, chain })
    }
}
