//! The handle on everything that is kept.

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
use crate::file::Place;
use crate::journal::{self, Journal, Promise};
use crate::keeper::Keeper;
use crate::keys::{KeyCache, Keys};
use crate::reader::{Read, Readers};
use crate::sandboxes::Sandboxes;
use crate::writer::{Write, Writer};
use crate::{StoreError, Timestamp};

/// How long a writer waits for another process, unless somebody says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To stay: there is one such process, and it keeps the file in shape.
    Server,
    /// To write a little and go, beside a server or without one.
    Tool,
    /// To look.
    ReadOnly,
}

/// What a commit survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of this process, however sudden. A power cut can cost the last seconds, and leaves
    /// a file that is whole and a chain that verifies.
    Process,
    /// A power cut too. Every commit waits for the disk.
    Machine,
}

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The clock of this machine.
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    /// Some other clock.
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

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// For what.
    pub access: Access,
    /// What a commit survives.
    pub durability: Durability,
    /// How long to wait for another process that is writing.
    pub patience: Duration,
    /// What the audit log keeps.
    pub audit: AuditSettings,
    /// How long records of sandboxes that have ended are kept; for ever if nothing is said.
    pub ended_kept: Option<Duration>,
    /// What time it is.
    pub clock: Clock,
}

impl StoreOptions {
    /// The usual ones for an access.
    pub fn new(access: Access) -> Self {
        Self {
            access,
            durability: Durability::Process,
            patience: PATIENCE,
            audit: AuditSettings::default(),
            ended_kept: None,
            clock: Clock::system(),
        }
    }
}

/// A handle on the store; copies are cheap and mean the same store.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    place: Place,
    options: StoreOptions,
    readers: Arc<Readers>,
    keys: Arc<KeyCache>,
    /// Nothing where the store is only read.
    writing: Option<Writing>,
    lock: Mutex<Option<File>>,
}

#[derive(Debug)]
struct Writing {
    writer: Writer,
    chain: Arc<ChainKey>,
}

impl Store {
    /// Opens the database at `path`, which is made if it is to be written and is not there. Its
    /// other files lie in the same directory.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let place = Place { database: path.to_owned(), patience: options.patience };
        let lock = match options.access {
            Access::Server => Some(place.lock_for_server()?),
            Access::Tool | Access::ReadOnly => None,
        };
        let writing = match options.access {
            Access::Server | Access::Tool => Some(Writing::start(&place, &options)?),
            Access::ReadOnly => {
                look_for_promises(&place, &options.clock)?;
                None
            }
        };
        let readers = Readers::open(place.clone(), options.access)?;
        let keys = Arc::default();
        let lock = Mutex::new(lock);
        Ok(Self { inner: Arc::new(Inner { place, options, readers, keys, writing, lock }) })
    }

    /// Who may use the server.
    pub fn keys(&self) -> Keys<'_> {
        Keys::new(self)
    }

    /// Which sandboxes there are and were.
    pub fn sandboxes(&self) -> Sandboxes<'_> {
        Sandboxes::new(self)
    }

    /// What waits for a person.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals::new(self)
    }

    /// What was done.
    pub fn audit(&self) -> Audit<'_> {
        Audit::new(self)
    }

    /// Ends the writing after all that was queued before, and closes the file. Other handles then
    /// get [`StoreError::Closed`] for what they write.
    pub async fn close(&self) {
        // The writer leaves last: only it can move the log into the file.
        self.inner.readers.close();
        if let Some(writing) = &self.inner.writing {
            writing.writer.close().await;
        }
        self.unlock();
    }

    /// The same on a thread of one's own.
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

    pub(crate) fn place(&self) -> &Place {
        &self.inner.place
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
        self.inner.readers.later(writer, work)
    }

    /// Has what was promised and put aside written, so that it can be read.
    pub(crate) fn flush(&self) {
        if let Some(writing) = &self.inner.writing {
            writing.writer.flush();
        }
    }

    /// Something that counts as done when it is promised, if it is awaited by a server. Otherwise it is
    /// written like everything else, and a conflict with what is there is told.
    pub(crate) fn promise<T: Send + 'static>(
        &self,
        promise: Promise,
        value: T,
        conflict: fn(&T) -> StoreError,
    ) -> Write<T> {
        match &self.inner.writing {
            Some(Writing { writer, chain }) => {
                writer.promise(promise, value, Arc::clone(chain), conflict)
            }
            None => self.refused(),
        }
    }

    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Write<T> {
        self.write_chained(move |connection, _| work(connection), || ())
    }

    /// The same for work that also adds to the audit log; `after` is called once it is committed.
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
        Write::refused(StoreError::ReadOnly { path: self.inner.place.database.clone() })
    }
}

/// Keeps what a server that died has promised, so that whoever only looks sees it.
fn look_for_promises(place: &Place, clock: &Clock) -> Result<(), StoreError> {
    match journal::settle_left(place, clock.now()) {
        // Whoever looks finds that out, and may be here for it.
        Err(
            StoreError::AuditBroken
            | StoreError::AuditKeyMissing { .. }
            | StoreError::AuditKeyMalformed { .. }
            | StoreError::AuditKeyExposed { .. }
            | StoreError::AuditKeyWrong { .. }
            | StoreError::Damaged { .. },
        ) => Ok(()),
        settled => settled,
    }
}

impl Writing {
    fn start(place: &Place, options: &StoreOptions) -> Result<Self, StoreError> {
        let connection = place.open_for_writing(options.durability)?;
        let chain = Arc::new(ChainKey::for_writing(&connection, place)?);
        let now = options.clock.now();
        let journal = match (options.access, options.durability) {
            (Access::Server, Durability::Process) => {
                Some(Journal::open(place, Arc::clone(&chain), &connection, now)?)
            }
            // A promise does not survive a power cut. Those that others have left are kept all the same.
            (Access::Server, Durability::Machine) => {
                Journal::open(place, Arc::clone(&chain), &connection, now)?.close();
                None
            }
            (Access::Tool | Access::ReadOnly, _) => {
                journal::settle_left(place, now)?;
                None
            }
        };
        let keeper = (options.access == Access::Server).then(|| Keeper::new(place, options));
        let nudge = keeper.as_ref().map(Keeper::nudge);
        let writer = Writer::start(connection, place.clone(), options.durability, journal, nudge)?;
        if let Some(keeper) = keeper {
            keeper.start(writer.downgrade(), Arc::clone(&chain))?;
        }
        Ok(Self { writer, chain })
    }
}
