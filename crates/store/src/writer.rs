//! Writing to the database, one transaction at a time.
//!
//! A task that finds the connection free writes on its own thread, which takes less time than to
//! wake another thread and be woken again. Otherwise its job is queued for the writer thread, which
//! takes all queued jobs, runs them in one transaction and answers when that is committed. So under
//! load many jobs share the cost of a commit, and a single one does not wait for others.
//!
//! Jobs that no caller waits for are deferred: they share the next commit. Pending writes
//! ([`crate::journal`]) share it too, before all jobs, since a job may build on them.
//!
//! This file holds what callers use: [`Write`] and the handle on the writer. The connection and its
//! transactions are in `writer/connection.rs`, jobs in `writer/job.rs`.

mod connection;
mod job;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::StoreError;
use crate::audit::ChainKey;
use crate::error::Failure;
use crate::file::StorePaths;
use crate::journal::{Journal, Pending};
use crate::store::Durability;

use connection::{FlushDue, WriteConnection};
use job::{Deferred, Job, JobOf, Work};

/// Jobs that may wait for the writer thread. A caller with one more waits until there is room.
const QUEUE_MAX: usize = 1024;

/// Jobs that share a transaction. With more, the first would wait too long for the last.
const BATCH_MAX: usize = 256;

/// How long pending and deferred writes wait for another write whose commit they can share.
pub(crate) const LINGER: Duration = Duration::from_millis(20);

/// A write that has not been started. It is awaited in an async task, or waited for with
/// [`Write::wait`] on a thread that may block. Once it has been queued it is carried out, even if
/// its future is dropped.
#[must_use = "nothing is written until this is awaited or waited for"]
pub struct Write<T> {
    prepared: Result<Prepared<T>, StoreError>,
}

struct Prepared<T> {
    writer: Writer,
    kind: WriteKind<T>,
}

enum WriteKind<T> {
    /// Must be committed before the caller is answered. The second function is called after the
    /// commit.
    Work(Work<T>, Box<dyn FnOnce() + Send>),
    /// May be answered when it is in the journal.
    Pending(Box<PendingWrite<T>>),
}

struct PendingWrite<T> {
    pending: Arc<Pending>,
    /// The answer.
    value: T,
    chain: Arc<ChainKey>,
    /// The error if the database already holds it.
    conflict: fn(&T) -> StoreError,
}

impl<T: Send + 'static> PendingWrite<T> {
    /// Turns it into work, for when it cannot go into the journal.
    fn into_work(self) -> Work<T> {
        Box::new(move |connection| match self.pending.insert(connection, &self.chain) {
            Err(failure) if failure.is_conflict() => Err((self.conflict)(&self.value).into()),
            other => other.map(|()| self.value),
        })
    }
}

impl<T: Send + 'static> Prepared<T> {
    fn into_job(self, answer: impl FnOnce(Result<T, StoreError>) + Send + 'static) -> Box<dyn Job> {
        match self.kind {
            WriteKind::Work(work, after) => JobOf::boxed(work, Some(after), answer),
            WriteKind::Pending(pending) => JobOf::boxed(pending.into_work(), None, answer),
        }
    }

    /// Adds it to the journal and returns the answer. Gives it back if it must be committed first,
    /// or if the journal cannot take it.
    fn add_to_journal(self) -> Result<T, Self> {
        match self.kind {
            WriteKind::Pending(pending) if self.writer.add_to_journal(&pending.pending) => {
                Ok(pending.value)
            }
            kind => Err(Self { writer: self.writer, kind }),
        }
    }

    /// Turns it into a job and a channel for its answer.
    fn into_awaited_job(self) -> (Box<dyn Job>, oneshot::Receiver<Result<T, StoreError>>) {
        let (sender, answer) = oneshot::channel();
        // The caller may have dropped the future; the work is done all the same.
        (self.into_job(move |end| drop(sender.send(end))), answer)
    }
}

impl<T: Send + 'static> Write<T> {
    /// Creates a write that fails with `error`.
    pub(crate) fn refused(error: StoreError) -> Self {
        Self { prepared: Err(error) }
    }

    /// Returns how many bytes the text of the write has, if it is one of those that may be answered
    /// when they are in the journal; otherwise 0.
    pub fn bytes(&self) -> u64 {
        match &self.prepared {
            Ok(Prepared { kind: WriteKind::Pending(write), .. }) => write.pending.bytes(),
            _ => 0,
        }
    }

    /// Writes and blocks until it is committed. Must not be called in an async task.
    pub fn wait(self) -> Result<T, StoreError> {
        let prepared = self.prepared?;
        let writer = prepared.writer.clone();
        let (job, answer) = prepared.into_awaited_job();
        writer.queue.blocking_send(Message::Job(job)).map_err(|_| StoreError::Closed)?;
        answer.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Writes, and calls `then` with the answer: at once if it goes into the journal or can be
    /// committed on this thread, otherwise later on the writer thread. Returns when it is queued.
    /// `then` must be short and must not block.
    pub async fn then(
        self,
        then: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let prepared = match self.prepared?.add_to_journal() {
            Ok(value) => {
                then(Ok(value));
                return Ok(());
            }
            Err(prepared) => prepared,
        };
        let writer = prepared.writer.clone();
        writer.run(prepared.into_job(then)).await
    }

    /// Writes to the journal, or together with the next write or within a few milliseconds, and
    /// returns at once. Must be called in an async task. On a failure `complain` is called.
    pub fn put_aside(self, complain: impl FnOnce(StoreError) + Send + 'static) {
        let prepared = match self.prepared.map(Prepared::add_to_journal) {
            Ok(Err(prepared)) => prepared,
            Ok(Ok(_)) => return,
            Err(error) => return complain(error),
        };
        let writer = prepared.writer.clone();
        writer.deferred.add(prepared.into_job(|end| drop(end.map_err(complain))));
        writer.flush_soon();
    }
}

impl<T: Send + 'static> IntoFuture for Write<T> {
    type Output = Result<T, StoreError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let prepared = match self.prepared?.add_to_journal() {
                Ok(value) => return Ok(value),
                Err(prepared) => prepared,
            };
            let writer = prepared.writer.clone();
            let (job, answer) = prepared.into_awaited_job();
            writer.run(job).await?;
            answer.await.unwrap_or(Err(StoreError::Closed))
        })
    }
}

impl<T> std::fmt::Debug for Write<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Write").finish_non_exhaustive()
    }
}

/// A handle on the connection and the writer thread, which ends with the last handle.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Message>,
    deferred: Deferred,
    connection: Arc<WriteConnection>,
}

/// A handle that does not keep the writer thread alive.
#[derive(Clone, Debug)]
pub(crate) struct WeakWriter {
    queue: mpsc::WeakSender<Message>,
    deferred: Deferred,
    connection: Arc<WriteConnection>,
}

impl WeakWriter {
    pub(crate) fn upgrade(&self) -> Option<Writer> {
        self.queue.upgrade().map(|queue| Writer {
            queue,
            deferred: self.deferred.clone(),
            connection: Arc::clone(&self.connection),
        })
    }
}

impl Writer {
    /// Starts the writer thread. After many commits it sends a message on `checkpoint_due`, without
    /// blocking.
    pub(crate) fn start(
        connection: Connection,
        paths: StorePaths,
        durability: Durability,
        journal: Option<Journal>,
        checkpoint_due: Option<SyncSender<()>>,
    ) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let connection =
            WriteConnection::new(connection, paths, durability, journal, checkpoint_due);
        let connection = Arc::new(connection);
        let writer = Self { queue, deferred: Deferred::default(), connection };
        let deferred = writer.deferred.clone();
        let connection = Arc::clone(&writer.connection);
        std::thread::Builder::new()
            .name("silica-store".to_owned())
            .spawn(move || run_thread(&connection, jobs, &deferred))
            .map_err(|error| StoreError::io("cannot start the store's thread", error))?;
        Ok(writer)
    }

    pub(crate) fn downgrade(&self) -> WeakWriter {
        WeakWriter {
            queue: self.queue.downgrade(),
            deferred: self.deferred.clone(),
            connection: Arc::clone(&self.connection),
        }
    }

    /// Prepares work to be done in a transaction. `after` is called when that is committed, before
    /// the caller is answered.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) -> Write<T> {
        let kind = WriteKind::Work(Box::new(work), Box::new(after));
        Write { prepared: Ok(Prepared { writer: self.clone(), kind }) }
    }

    /// Prepares a write that may be answered with `value` when it is in the journal. `conflict` is
    /// the error if it is written directly and the database already holds it.
    pub(crate) fn write_pending<T: Send + 'static>(
        &self,
        pending: Pending,
        value: T,
        chain: Arc<ChainKey>,
        conflict: fn(&T) -> StoreError,
    ) -> Write<T> {
        let pending = Arc::new(pending);
        let kind = WriteKind::Pending(Box::new(PendingWrite { pending, value, chain, conflict }));
        Write { prepared: Ok(Prepared { writer: self.clone(), kind }) }
    }

    /// Returns false if the journal cannot take it now.
    fn add_to_journal(&self, pending: &Arc<Pending>) -> bool {
        let added = self.connection.journal().is_some_and(|journal| journal.add(pending));
        if added {
            self.flush_soon();
        }
        added
    }

    /// Has pending and deferred writes committed within a few milliseconds.
    fn flush_soon(&self) {
        let Some(due) = FlushDue::new(&self.connection) else { return };
        let writer = self.downgrade();
        tokio::spawn(async move {
            tokio::time::sleep(LINGER).await;
            drop(due);
            // If the writer thread has ended, it has written everything before.
            if let Some(writer) = writer.upgrade() {
                let _ = writer.queue.send(Message::Flush).await;
            }
        });
    }

    /// Commits pending and deferred writes on this thread, so that a reader sees them. Gives up
    /// after a moment if another process is writing; the reader then sees what is committed.
    pub(crate) fn flush(&self) {
        self.connection.flush(&self.deferred);
    }

    /// Runs a job on this thread if the connection is free, and queues it otherwise.
    async fn run(&self, job: Box<dyn Job>) -> Result<(), StoreError> {
        // A job must not overtake those that are queued.
        let queue_is_empty = self.queue.capacity() == QUEUE_MAX;
        let unwritten =
            if queue_is_empty { self.connection.try_write(job, &self.deferred) } else { Err(job) };
        match unwritten {
            Ok(()) => Ok(()),
            Err(job) => self.queue.send(Message::Job(job)).await.map_err(|_| StoreError::Closed),
        }
    }

    /// Ends the thread after the jobs that are queued; resolves when the file is closed.
    pub(crate) async fn close(&self) {
        let (sender, closed) = oneshot::channel();
        // Either error means that the thread has ended before.
        let _ = self.queue.send(Message::Close(sender)).await;
        let _ = closed.await;
    }

    /// Does what [`Writer::close`] does, and blocks.
    pub(crate) fn close_wait(&self) {
        let (sender, closed) = oneshot::channel();
        let _ = self.queue.blocking_send(Message::Close(sender));
        let _ = closed.blocking_recv();
    }
}

/// A message to the writer thread.
enum Message {
    Job(Box<dyn Job>),
    /// Commit pending and deferred writes.
    Flush,
    /// Close the file, then answer.
    Close(oneshot::Sender<()>),
}

fn run_thread(
    connection: &WriteConnection,
    mut jobs: mpsc::Receiver<Message>,
    deferred: &Deferred,
) {
    while let Some(first) = jobs.blocking_recv() {
        let (batch, close) = collect(first, &mut jobs, deferred);
        if let (Some(_), Some(journal)) = (&close, connection.journal()) {
            // Nothing may be added to the journal after the batch that empties it.
            journal.stop();
        }
        connection.write(batch);
        if let Some(closed) = close {
            jobs.close();
            connection.close();
            // The caller may have dropped the future.
            let _ = closed.send(());
            return;
        }
    }
    // The last handle was dropped.
    connection.write(deferred.take());
    connection.close();
}

/// Collects the deferred jobs and those that are queued now, up to a message to close.
fn collect(
    first: Message,
    jobs: &mut mpsc::Receiver<Message>,
    deferred: &Deferred,
) -> (Vec<Box<dyn Job>>, Option<oneshot::Sender<()>>) {
    let mut batch = deferred.take();
    let mut next = Some(first);
    while let Some(message) = next {
        match message {
            Message::Job(job) => batch.push(job),
            Message::Flush => {}
            Message::Close(closed) => return (batch, Some(closed)),
        }
        next = if batch.len() < BATCH_MAX { jobs.try_recv().ok() } else { None };
    }
    (batch, None)
}
