//! Connections that only read. A read sees one snapshot of the file, and blocks no writer. In a
//! server a read first commits the pending writes, so that it sees all that callers were told is
//! written; it waits for that for a moment at most.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::StoreError;
use crate::error::Failure;
use crate::file::StorePaths;
use crate::store::Access;
use crate::writer::Writer;

/// The most concurrent reads of async tasks, and the most connections kept open between reads.
const READERS_MAX: usize = 4;

/// How long the housekeeping waits for the end of all reads. New ones wait behind it, so this is what they wait at most.
const EXCLUSION_PATIENCE: Duration = Duration::from_millis(500);

type Work<T> = Box<dyn FnOnce(&Connection) -> Result<T, Failure> + Send>;

/// A read that has not been started. It is awaited in an async task, or waited for with
/// [`Read::wait`] on a thread that may block.
#[must_use = "nothing is read until this is awaited or waited for"]
pub struct Read<T> {
    readers: Arc<Readers>,
    /// The writer with pending writes to commit first; `None` where the store is only read.
    writer: Option<Writer>,
    work: Work<T>,
}

impl<T> Read<T> {
    /// Reads on this thread. Must not be called in an async task.
    pub fn wait(self) -> Result<T, StoreError> {
        if let Some(writer) = self.writer {
            writer.flush();
        }
        self.readers.read(self.work)
    }
}

impl<T: Send + 'static> IntoFuture for Read<T> {
    type Output = Result<T, StoreError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let turns = self.readers.turns.clone();
            let turn = turns.0.acquire_owned().await.map_err(|_| StoreError::Closed)?;
            let reading = tokio::task::spawn_blocking(move || {
                let result = self.wait();
                drop(turn);
                result
            });
            reading.await.unwrap_or(Err(StoreError::Closed))
        })
    }
}

impl<T> std::fmt::Debug for Read<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Read").finish_non_exhaustive()
    }
}

/// The turns of async tasks to read. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ReadTurns(Arc<Semaphore>);

impl ReadTurns {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(READERS_MAX)))
    }

    /// Takes every turn, so that nothing is read until the result is dropped. Returns `None` if reads go on for too
    /// long. Blocks; must not be called in an async task.
    pub(crate) fn take_all(&self) -> Option<OwnedSemaphorePermit> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
        let all = Arc::clone(&self.0).acquire_many_owned(READERS_MAX as u32);
        let waiting = async { tokio::time::timeout(EXCLUSION_PATIENCE, all).await };
        runtime.block_on(waiting).ok()?.ok()
    }
}

/// The idle connections.
#[derive(Debug)]
pub(crate) struct Readers {
    paths: StorePaths,
    idle: Mutex<Vec<Connection>>,
    turns: ReadTurns,
}

impl Readers {
    /// Opens the first connection, so that a file that cannot be read is an error now. A server
    /// opens all at the start, so that the number of its open files does not depend on concurrent
    /// reads.
    pub(crate) fn open(
        paths: StorePaths,
        access: Access,
        turns: ReadTurns,
    ) -> Result<Arc<Self>, StoreError> {
        let count = if access == Access::Server { READERS_MAX } else { 1 };
        let idle: Result<Vec<_>, _> = (0..count).map(|_| paths.open_for_reading()).collect();
        Ok(Arc::new(Self { paths, idle: Mutex::new(idle?), turns }))
    }

    /// Prepares a read.
    pub(crate) fn prepare<T>(
        self: &Arc<Self>,
        writer: Option<Writer>,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Read<T> {
        Read { readers: Arc::clone(self), writer, work: Box::new(work) }
    }

    /// Reads on this thread, in one transaction.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let idle = self.lock().pop();
        let connection = idle.map_or_else(|| self.paths.open_for_reading(), Ok)?;
        let result = in_transaction(&connection, work);
        let mut idle = self.lock();
        if idle.len() < READERS_MAX {
            idle.push(connection);
        }
        drop(idle);
        result.map_err(|failure| self.paths.explain(failure))
    }

    /// Closes the connections that are not in use.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        // A list of connections has no invariant that a panic could break.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let transaction = connection.unchecked_transaction()?;
    let result = work(&transaction);
    // Rolls back. Nothing was written, so nothing is lost if that fails.
    drop(transaction);
    result
}
