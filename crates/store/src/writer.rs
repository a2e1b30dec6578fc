//! The one thread that writes. It takes everything that is queued, does it in one transaction, and
//! answers when that is committed: under load many share the cost of a commit, and alone nobody
//! waits for company.

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::mpsc::SyncSender;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::StoreError;
use crate::error::Failure;
use crate::file::Place;

/// Jobs that may wait for the writer; whoever brings one more waits until there is room.
const QUEUE_MAX: usize = 1024;
/// Jobs that share a transaction. More would make the first wait for the last.
const BATCH_MAX: usize = 256;
/// Commits after which somebody should move the log into the file.
const COMMITS_BEFORE_CHECKPOINT: u32 = 1000;

/// Something to write: it is awaited, or waited for on a thread of one's own. Once it has been
/// queued it is carried out, even if whoever waits goes away.
#[must_use = "nothing is written until this is awaited or waited for"]
pub struct Write<T> {
    prepared: Result<Prepared<T>, StoreError>,
}

struct Prepared<T> {
    writer: Writer,
    job: Box<dyn Job>,
    answer: oneshot::Receiver<Result<T, StoreError>>,
}

impl<T> Write<T> {
    /// One that is refused before it is queued.
    pub(crate) fn refused(error: StoreError) -> Self {
        Self { prepared: Err(error) }
    }

    /// Waits on this thread, which must not be one that runs async tasks.
    pub fn wait(self) -> Result<T, StoreError> {
        let Prepared { writer, job, answer } = self.prepared?;
        writer.queue.blocking_send(Message::Job(job)).map_err(|_| StoreError::Closed)?;
        answer.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }
}

impl<T: Send + 'static> IntoFuture for Write<T> {
    type Output = Result<T, StoreError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Prepared { writer, job, answer } = self.prepared?;
            writer.queue.send(Message::Job(job)).await.map_err(|_| StoreError::Closed)?;
            answer.await.unwrap_or(Err(StoreError::Closed))
        })
    }
}

impl<T> std::fmt::Debug for Write<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Write").finish_non_exhaustive()
    }
}

/// A handle on the thread.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Message>,
}

/// A handle that does not keep the thread alive.
#[derive(Clone, Debug)]
pub(crate) struct WeakWriter {
    queue: mpsc::WeakSender<Message>,
}

impl WeakWriter {
    pub(crate) fn upgrade(&self) -> Option<Writer> {
        self.queue.upgrade().map(|queue| Writer { queue })
    }
}

impl Writer {
    /// Starts the thread. After many commits it says so on `nudge`, and waits for nobody.
    pub(crate) fn start(
        connection: Connection,
        place: Place,
        nudge: Option<SyncSender<()>>,
    ) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        std::thread::Builder::new()
            .name("silica-store".to_owned())
            .spawn(move || work(connection, jobs, &place, nudge.as_ref()))
            .map_err(|error| StoreError::io("cannot start the store's thread", error))?;
        Ok(Self { queue })
    }

    pub(crate) fn downgrade(&self) -> WeakWriter {
        WeakWriter { queue: self.queue.downgrade() }
    }

    /// Something to do in a transaction, and something to do once that is committed and before
    /// anybody hears of it.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) -> Write<T> {
        let (sender, answer) = oneshot::channel();
        let job = Typed { work: Some(work), after, value: None, answer: sender };
        Write { prepared: Ok(Prepared { writer: self.clone(), job: Box::new(job), answer }) }
    }

    /// Ends the thread after what was queued before; resolves when the file is closed.
    pub(crate) async fn close(&self) {
        let (sender, closed) = oneshot::channel();
        // Either error means that it has ended before.
        let _ = self.queue.send(Message::Close(sender)).await;
        let _ = closed.await;
    }

    /// The same on a thread of one's own.
    pub(crate) fn close_wait(&self) {
        let (sender, closed) = oneshot::channel();
        let _ = self.queue.blocking_send(Message::Close(sender));
        let _ = closed.blocking_recv();
    }
}

enum Message {
    Job(Box<dyn Job>),
    Close(oneshot::Sender<()>),
}

/// One piece of work with whoever waits for it, whatever its type.
trait Job: Send {
    /// Does it inside the open transaction.
    fn run(&mut self, connection: &Connection) -> Result<(), Failure>;

    /// Tells how it ended, after the commit.
    fn settle(self: Box<Self>, end: Result<(), StoreError>);
}

struct Typed<T, W, A> {
    work: Option<W>,
    after: A,
    value: Option<T>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, W, A> Job for Typed<T, W, A>
where
    T: Send,
    W: FnOnce(&Connection) -> Result<T, Failure> + Send,
    A: FnOnce() + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), Failure> {
        if let Some(work) = self.work.take() {
            self.value = Some(work(connection)?);
        }
        Ok(())
    }

    fn settle(self: Box<Self>, end: Result<(), StoreError>) {
        let result = match (end, self.value) {
            (Ok(()), Some(value)) => {
                (self.after)();
                Ok(value)
            }
            (Ok(()), None) => Err(StoreError::Closed),
            (Err(error), _) => Err(error),
        };
        // Whoever asked may have gone away; the work is done all the same.
        let _ = self.answer.send(result);
    }
}

fn work(
    connection: Connection,
    mut jobs: mpsc::Receiver<Message>,
    place: &Place,
    nudge: Option<&SyncSender<()>>,
) {
    let mut commits = 0;
    while let Some(first) = jobs.blocking_recv() {
        let (batch, close) = collect(first, &mut jobs);
        if !batch.is_empty() {
            commit(&connection, batch, place);
            commits += 1;
        }
        if commits >= COMMITS_BEFORE_CHECKPOINT {
            commits = 0;
            // If it has been told before and has not come to it, once is enough.
            let _ = nudge.map(|nudge| nudge.try_send(()));
        }
        if let Some(closed) = close {
            jobs.close();
            drop(connection);
            let _ = closed.send(());
            return;
        }
    }
}

/// What is queued now, up to a closing.
fn collect(
    first: Message,
    jobs: &mut mpsc::Receiver<Message>,
) -> (Vec<Box<dyn Job>>, Option<oneshot::Sender<()>>) {
    let mut batch = Vec::new();
    let mut next = Some(first);
    while let Some(message) = next {
        match message {
            Message::Job(job) => batch.push(job),
            Message::Close(closed) => return (batch, Some(closed)),
        }
        next = if batch.len() < BATCH_MAX { jobs.try_recv().ok() } else { None };
    }
    (batch, None)
}

/// Does a batch in one transaction and tells everybody how it ended.
fn commit(connection: &Connection, mut batch: Vec<Box<dyn Job>>, place: &Place) {
    let ends = match run_all(connection, &mut batch, place) {
        Ok(ends) => ends,
        Err(error) => vec![Err(error); batch.len()],
    };
    for (job, end) in batch.into_iter().zip(ends) {
        job.settle(end);
    }
}

/// How each job ended; an error if nothing of the whole batch was kept.
fn run_all(
    connection: &Connection,
    batch: &mut [Box<dyn Job>],
    place: &Place,
) -> Result<Vec<Result<(), StoreError>>, StoreError> {
    let explain = |error: rusqlite::Error| place.explain(error);
    execute(connection, "BEGIN IMMEDIATE").map_err(explain)?;
    let alone = batch.len() == 1;
    let mut ends = Vec::with_capacity(batch.len());
    for job in batch {
        let end = if alone { job.run(connection) } else { run_apart(connection, job.as_mut()) };
        let end = end.map_err(|failure| place.explain(failure));
        // A full disk or a broken file makes SQLite give up the transaction, with all that others
        // did in it.
        if connection.is_autocommit() {
            return Err(end.err().unwrap_or(StoreError::Closed));
        }
        ends.push(end);
    }
    let keep = ends.iter().any(Result::is_ok);
    let ended = execute(connection, if keep { "COMMIT" } else { "ROLLBACK" });
    if ended.is_err() && !connection.is_autocommit() {
        // The next transaction must not find this one open; a failure of it will be told then.
        let _ = execute(connection, "ROLLBACK");
    }
    ended.map_err(explain)?;
    Ok(ends)
}

/// Runs one job of several so that its failure undoes only its own work.
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
