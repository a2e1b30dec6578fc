//! The one connection of this process that writes, and its transactions.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::job::{Deferred, Job};
use crate::StoreError;
use crate::error::Failure;
use crate::file::StorePaths;
use crate::housekeeper::LOG_BYTES_KEPT;
use crate::journal::Journal;
use crate::store::Durability;

/// How long a reader waits until pending and deferred writes are committed.
const FLUSH_PATIENCE: Duration = Duration::from_millis(100);

/// How often it tries meanwhile.
const FLUSH_PAUSE: Duration = Duration::from_micros(200);

/// Commits after which the write-ahead log should be moved into the file.
const COMMITS_BEFORE_CHECKPOINT: u32 = 1000;

/// Commits between two looks whether the log has become so long that it should be moved before.
const COMMITS_BEFORE_LOOK: u32 = 16;

/// How each job of a batch ended; an error if nothing of the batch was committed.
type BatchEnd = Result<Vec<Result<(), StoreError>>, StoreError>;

/// The connection, used by the writer thread or by a task that finds it free.
#[derive(Debug)]
pub(super) struct WriteConnection {
    /// `None` once the file is closed.
    connection: Mutex<Option<Connection>>,
    paths: StorePaths,
    /// Whether a commit does not wait for the disk, so that an async task may make it.
    is_prompt: bool,
    journal: Option<Journal>,
    /// Whether a flush is scheduled.
    flush_due: AtomicBool,
    /// Commits since the last request for a checkpoint.
    commits: AtomicU32,
    checkpoint_due: Option<SyncSender<()>>,
}

impl WriteConnection {
    pub(super) fn new(
        connection: Connection,
        paths: StorePaths,
        durability: Durability,
        journal: Option<Journal>,
        checkpoint_due: Option<SyncSender<()>>,
    ) -> Self {
        Self {
            connection: Mutex::new(Some(connection)),
            paths,
            is_prompt: durability == Durability::Process,
            journal,
            flush_due: AtomicBool::new(false),
            commits: AtomicU32::new(0),
            checkpoint_due,
        }
    }

    pub(super) fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connection>> {
        // A panic leaves at most an open transaction, which the next BEGIN reports as an error.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a batch in one transaction and answers its callers.
    pub(super) fn write(&self, mut batch: Vec<Box<dyn Job>>) {
        if batch.is_empty() && self.has_no_pending() {
            return;
        }
        let ends = match &*self.lock() {
            Some(connection) => begin(connection)
                .map_err(|error| self.begin_failed(error))
                .and_then(|()| self.run_batch(connection, &mut batch)),
            None => Err(StoreError::Closed),
        };
        self.finish(batch, ends);
    }

    /// Runs a job on this thread if the connection and the database are free; gives it back
    /// otherwise.
    pub(super) fn try_write(
        &self,
        job: Box<dyn Job>,
        deferred: &Deferred,
    ) -> Result<(), Box<dyn Job>> {
        let guard = match self.connection.try_lock() {
            Ok(guard) if self.is_prompt => guard,
            _ => return Err(job),
        };
        let Some(connection) = &*guard else { return Err(job) };
        // If another process is writing, the writer thread waits for it, and reports any error.
        if !self.try_begin(connection) {
            return Err(job);
        }
        let mut batch = deferred.take();
        batch.push(job);
        let ends = self.run_batch(connection, &mut batch);
        drop(guard);
        self.finish(batch, ends);
        Ok(())
    }

    /// Commits pending and deferred writes, unless the connection or the database stays busy.
    pub(super) fn flush(&self, deferred: &Deferred) {
        let until = Instant::now() + FLUSH_PATIENCE;
        while !(self.has_no_pending() && deferred.is_empty()) {
            if let Ok(guard) = self.connection.try_lock() {
                let Some(connection) = &*guard else { return };
                if self.try_begin(connection) {
                    let mut batch = deferred.take();
                    let ends = self.run_batch(connection, &mut batch);
                    drop(guard);
                    return self.finish(batch, ends);
                }
            }
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(FLUSH_PAUSE);
        }
    }

    /// Begins a transaction if no other process is writing.
    fn try_begin(&self, connection: &Connection) -> bool {
        let begun = connection.busy_timeout(Duration::ZERO).and_then(|()| begin(connection));
        connection.busy_timeout(self.paths.patience).is_ok() && begun.is_ok()
    }

    fn begin_failed(&self, error: rusqlite::Error) -> StoreError {
        let error = self.paths.explain(error);
        if let Some(journal) = &self.journal {
            journal.failed(&error);
        }
        error
    }

    fn has_no_pending(&self) -> bool {
        self.journal.as_ref().is_none_or(Journal::is_empty)
    }

    /// Inserts the pending writes, then runs a batch, in a transaction that has begun.
    fn run_batch(&self, connection: &Connection, batch: &mut [Box<dyn Job>]) -> BatchEnd {
        let Some(journal) = &self.journal else {
            return run_jobs(connection, batch, &self.paths, 0);
        };
        let ends = journal
            .insert_all(connection)
            .map_err(|failure| self.roll_back(connection, failure))
            .and_then(|inserted| {
                let ends = run_jobs(connection, batch, &self.paths, inserted)?;
                journal.committed(inserted);
                Ok(ends)
            });
        if let Err(error) = &ends {
            journal.failed(error);
        }
        ends
    }

    /// Ends a transaction in which a pending write could not be inserted. No job may be committed
    /// without it, since the job may build on it.
    fn roll_back(&self, connection: &Connection, failure: Failure) -> StoreError {
        if !connection.is_autocommit() {
            // If this fails, the next BEGIN reports it.
            let _ = execute(connection, "ROLLBACK");
        }
        self.paths.explain(failure)
    }

    pub(super) fn close(&self) {
        drop(self.lock().take());
        if let Some(journal) = &self.journal {
            journal.close();
        }
    }

    /// Answers the callers of a batch, and asks for a checkpoint after many commits.
    fn finish(&self, batch: Vec<Box<dyn Job>>, ends: BatchEnd) {
        let commits = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        let looks = commits.is_multiple_of(COMMITS_BEFORE_LOOK);
        if commits >= COMMITS_BEFORE_CHECKPOINT
            || (looks && self.paths.log_bytes() > LOG_BYTES_KEPT)
        {
            self.commits.store(0, Ordering::Relaxed);
            // If the channel is full, a checkpoint has been asked for and is still to come.
            let _ = self.checkpoint_due.as_ref().map(|due| due.try_send(()));
        }
        let ends = ends.unwrap_or_else(|error| vec![Err(error); batch.len()]);
        for (job, end) in batch.into_iter().zip(ends) {
            job.finish(end);
        }
    }
}

/// Marks that a flush is scheduled, until it is dropped.
pub(super) struct FlushDue(Arc<WriteConnection>);

impl FlushDue {
    /// Returns `None` if a flush is scheduled already.
    pub(super) fn new(connection: &Arc<WriteConnection>) -> Option<Self> {
        let was_due = connection.flush_due.swap(true, Ordering::AcqRel);
        (!was_due).then(|| Self(Arc::clone(connection)))
    }
}

impl Drop for FlushDue {
    fn drop(&mut self) {
        self.0.flush_due.store(false, Ordering::Release);
    }
}

/// Begins a transaction with SQLite's write lock, so that what it reads is not changed meanwhile.
fn begin(connection: &Connection) -> rusqlite::Result<()> {
    execute(connection, "BEGIN IMMEDIATE")
}

/// Runs jobs in a transaction that has begun and in which `pending` writes were inserted, and ends
/// it.
fn run_jobs(
    connection: &Connection,
    batch: &mut [Box<dyn Job>],
    paths: &StorePaths,
    pending: usize,
) -> BatchEnd {
    let explain = |error: rusqlite::Error| paths.explain(error);
    // A single job needs no savepoint: if it fails, the whole transaction is rolled back.
    let alone = batch.len() + pending == 1;
    let mut ends = Vec::with_capacity(batch.len());
    for job in batch {
        let end = if alone { job.run(connection) } else { run_apart(connection, job.as_mut()) };
        let end = end.map_err(|failure| paths.explain(failure));
        // On a full disk or a damaged file SQLite itself rolls the transaction back, with the work
        // of all jobs before.
        if connection.is_autocommit() {
            return Err(end.err().unwrap_or(StoreError::Closed));
        }
        ends.push(end);
    }
    let commit = pending > 0 || ends.iter().any(Result::is_ok);
    let ended = execute(connection, if commit { "COMMIT" } else { "ROLLBACK" });
    if ended.is_err() && !connection.is_autocommit() {
        // The next transaction must not find this one open. If this fails, its BEGIN reports it.
        let _ = execute(connection, "ROLLBACK");
    }
    ended.map_err(explain)?;
    Ok(ends)
}

/// Runs one job of several in a savepoint, so that its failure undoes only its own work.
fn run_apart(connection: &Connection, job: &mut dyn Job) -> Result<(), Failure> {
    execute(connection, "SAVEPOINT job")?;
    let end = job.run(connection);
    if connection.is_autocommit() {
        return end;
    }
    if end.is_err() {
        execute(connection, "ROLLBACK TO job")?;
    }
    execute(connection, "RELEASE job")?;
    end
}

fn execute(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(drop)
}
