//! Connections that only read. A read sees one moment of the file, and no writer waits for it. In a server it first
//! has written what counts as written, for which it waits a moment at most if others are writing.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::StoreError;
use crate::error::Failure;
use crate::file::Place;
use crate::store::Access;
use crate::writer::Writer;

/// Reads of async callers under way at once, and connections kept open between reads.
const READERS_MAX: usize = 4;

type Work<T> = Box<dyn FnOnce(&Connection) -> Result<T, Failure> + Send>;

/// Something to read: it is awaited, or waited for on a thread of one's own.
#[must_use = "nothing is read until this is awaited or waited for"]
pub struct Read<T> {
    readers: Arc<Readers>,
    /// Who may have to write first what counts as written.
    writer: Option<Writer>,
    work: Work<T>,
}

impl<T> Read<T> {
    /// Reads on this thread.
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
            let turns = Arc::clone(&self.readers.turns);
            let turn = turns.acquire_owned().await.map_err(|_| StoreError::Closed)?;
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

/// The connections.
#[derive(Debug)]
pub(crate) struct Readers {
    place: Place,
    idle: Mutex<Vec<Connection>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    /// Opens the first one, so that a file that cannot be read is found now. A server has them all from
    /// the start: what it holds open does not depend on who happens to read at the same time.
    pub(crate) fn open(place: Place, access: Access) -> Result<Arc<Self>, StoreError> {
        let count = if access == Access::Server { READERS_MAX } else { 1 };
        let idle: Result<Vec<_>, _> = (0..count).map(|_| place.open_for_reading()).collect();
        let (idle, turns) = (Mutex::new(idle?), Arc::new(Semaphore::new(READERS_MAX)));
        Ok(Arc::new(Self { place, idle, turns }))
    }

    pub(crate) fn later<T>(
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
        let connection = idle.map_or_else(|| self.place.open_for_reading(), Ok)?;
        let result = in_transaction(&connection, work);
        let mut idle = self.lock();
        if idle.len() < READERS_MAX {
            idle.push(connection);
        }
        drop(idle);
        result.map_err(|failure| self.place.explain(failure))
    }

    /// Closes what is open and not in use.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        // A list of connections has no invariant that a panic elsewhere could have broken halfway.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let transaction = connection.unchecked_transaction()?;
    let result = work(&transaction);
    // Nothing was written: there is nothing to lose if this fails.
    drop(transaction);
    result
}
