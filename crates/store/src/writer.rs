//! Writing, one at a time. A task that finds nobody writing does it in passing, which takes less time
//! than to wake a thread and to be woken again. The rest is queued for a thread made for it, which takes
//! everything there is, does it in one transaction, and answers when that is committed: under load many
//! share the cost of a commit, and alone nobody waits for company. What nobody waits for at all is put
//! aside, and shares the next commit; so does what was promised ([`crate::journal`]), before everything
//! else, since what comes later may build on it.

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::StoreError;
use crate::audit::ChainKey;
use crate::error::Failure;
use crate::file::Place;
use crate::journal::{Journal, Promise};
use crate::store::Durability;

/// Jobs that may wait for the writer; whoever brings one more waits until there is room.
const QUEUE_MAX: usize = 1024;
/// Jobs that share a transaction. More would make the first wait for the last.
const BATCH_MAX: usize = 256;
/// How long what was promised or put aside waits for something else to be written.
pub(crate) const LINGER: Duration = Duration::from_millis(20);
/// How long a reader waits until what counts as written is written, and how often it looks.
const FLUSH_PATIENCE: Duration = Duration::from_millis(100);
const FLUSH_PAUSE: Duration = Duration::from_micros(200);
/// Commits after which somebody should move the log into the file.
const COMMITS_BEFORE_CHECKPOINT: u32 = 1000;

/// Something to write: it is awaited, if it is short, or waited for on a thread of one's own. Once it
/// has been queued it is carried out, even if whoever waits goes away.
#[must_use = "nothing is written until this is awaited or waited for"]
pub struct Write<T> {
    prepared: Result<Prepared<T>, StoreError>,
}

struct Prepared<T> {
    writer: Writer,
    what: What<T>,
}

/// What is to be written.
enum What<T> {
    /// Something that has to be in the file before anybody is answered, and something to do after that.
    Work(Work<T>, Box<dyn FnOnce() + Send>),
    /// Something that may be promised, with the answer.
    Promise(Box<Promised<T>>),
}

struct Promised<T> {
    promise: Arc<Promise>,
    value: T,
    chain: Arc<ChainKey>,
    conflict: fn(&T) -> StoreError,
}

impl<T: Send + 'static> Promised<T> {
    /// The same as work, where it cannot be promised.
    fn work(self) -> Work<T> {
        Box::new(move |connection| match self.promise.insert(connection, &self.chain) {
            Err(failure) if failure.is_conflict() => Err((self.conflict)(&self.value).into()),
            other => other.map(|()| self.value),
        })
    }
}

type Work<T> = Box<dyn FnOnce(&Connection) -> Result<T, Failure> + Send>;

impl<T: Send + 'static> Prepared<T> {
    fn job(self, answer: impl FnOnce(Result<T, StoreError>) + Send + 'static) -> Box<dyn Job> {
        let (work, after) = match self.what {
            What::Work(work, after) => (work, Some(after)),
            What::Promise(promised) => (promised.work(), None),
        };
        Box::new(Typed { work: Some(work), after, value: None, answer: Some(answer) })
    }

    /// The answer, if it could be promised; otherwise it has to be written.
    fn promise(self) -> Result<T, Self> {
        match self.what {
            What::Promise(promised) if self.writer.add_promise(&promised.promise) => {
                Ok(promised.value)
            }
            what => Err(Self { writer: self.writer, what }),
        }
    }

    /// The same with somebody who waits for it.
    fn awaited(self) -> (Box<dyn Job>, oneshot::Receiver<Result<T, StoreError>>) {
        let (sender, answer) = oneshot::channel();
        // Whoever asked may have gone away; the work is done all the same.
        (self.job(move |end| drop(sender.send(end))), answer)
    }
}

impl<T: Send + 'static> Write<T> {
    /// One that is refused before it is queued.
    pub(crate) fn refused(error: StoreError) -> Self {
        Self { prepared: Err(error) }
    }

    /// Waits on this thread, which must not be one that runs async tasks.
    pub fn wait(self) -> Result<T, StoreError> {
        let prepared = self.prepared?;
        let writer = prepared.writer.clone();
        let (job, answer) = prepared.awaited();
        writer.queue.blocking_send(Message::Job(job)).map_err(|_| StoreError::Closed)?;
        answer.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Promises it if that is possible, or writes it in passing if nobody else is writing, and else
    /// queues it and goes on. Whoever has done so calls `then`, which must be short and wait for nobody.
    pub async fn then(
        self,
        then: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let prepared = match self.prepared?.promise() {
            Ok(value) => {
                then(Ok(value));
                return Ok(());
            }
            Err(prepared) => prepared,
        };
        let writer = prepared.writer.clone();
        writer.take(prepared.job(then)).await
    }

    /// Promises it, or has it written with whatever is written next, or within a few milliseconds, and
    /// waits for nothing. Must be called where async tasks run. A failure is told to `complain`.
    pub fn put_aside(self, complain: impl FnOnce(StoreError) + Send + 'static) {
        let prepared = match self.prepared.map(Prepared::promise) {
            Ok(Err(prepared)) => prepared,
            Ok(Ok(_)) => return,
            Err(error) => return complain(error),
        };
        let writer = prepared.writer.clone();
        writer.aside.add(prepared.job(|end| drop(end.map_err(complain))));
        writer.flush_soon();
    }
}

impl<T: Send + 'static> IntoFuture for Write<T> {
    type Output = Result<T, StoreError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let prepared = match self.prepared?.promise() {
                Ok(value) => return Ok(value),
                Err(prepared) => prepared,
            };
            let writer = prepared.writer.clone();
            let (job, answer) = prepared.awaited();
            writer.take(job).await?;
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
    aside: Pile,
    desk: Arc<Desk>,
}

/// A handle that does not keep the thread alive.
#[derive(Clone, Debug)]
pub(crate) struct WeakWriter {
    queue: mpsc::WeakSender<Message>,
    aside: Pile,
    desk: Arc<Desk>,
}

impl WeakWriter {
    pub(crate) fn upgrade(&self) -> Option<Writer> {
        let (aside, desk) = (self.aside.clone(), Arc::clone(&self.desk));
        self.queue.upgrade().map(|queue| Writer { queue, aside, desk })
    }
}

impl Writer {
    /// Starts the thread. After many commits it says so on `nudge`, and waits for nobody.
    pub(crate) fn start(
        connection: Connection,
        place: Place,
        durability: Durability,
        journal: Option<Journal>,
        nudge: Option<SyncSender<()>>,
    ) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let desk = Arc::new(Desk {
            connection: Mutex::new(Some(connection)),
            place,
            prompt: durability == Durability::Process,
            journal,
            flush_due: AtomicBool::new(false),
            commits: AtomicU32::new(0),
            nudge,
        });
        let writer = Self { queue, aside: Pile::default(), desk };
        let (aside, desk) = (writer.aside.clone(), Arc::clone(&writer.desk));
        std::thread::Builder::new()
            .name("silica-store".to_owned())
            .spawn(move || work(&desk, jobs, &aside))
            .map_err(|error| StoreError::io("cannot start the store's thread", error))?;
        Ok(writer)
    }

    pub(crate) fn downgrade(&self) -> WeakWriter {
        let (aside, desk) = (self.aside.clone(), Arc::clone(&self.desk));
        WeakWriter { queue: self.queue.downgrade(), aside, desk }
    }

    /// Something to do in a transaction, and something to do once that is committed and before
    /// anybody hears of it.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
        after: impl FnOnce() + Send + 'static,
    ) -> Write<T> {
        let what = What::Work(Box::new(work), Box::new(after));
        Write { prepared: Ok(Prepared { writer: self.clone(), what }) }
    }

    /// Something that may be promised, with the answer, and what is told if it was there before.
    pub(crate) fn promise<T: Send + 'static>(
        &self,
        promise: Promise,
        value: T,
        chain: Arc<ChainKey>,
        conflict: fn(&T) -> StoreError,
    ) -> Write<T> {
        let promise = Arc::new(promise);
        let what = What::Promise(Box::new(Promised { promise, value, chain, conflict }));
        Write { prepared: Ok(Prepared { writer: self.clone(), what }) }
    }

    /// False if it cannot be promised now.
    fn add_promise(&self, promise: &Arc<Promise>) -> bool {
        let added = self.desk.journal.as_ref().is_some_and(|journal| journal.add(promise));
        if added {
            self.flush_soon();
        }
        added
    }

    /// Has what was promised and put aside written within a few milliseconds.
    fn flush_soon(&self) {
        let Some(due) = FlushDue::new(&self.desk) else { return };
        let writer = self.downgrade();
        tokio::spawn(async move {
            tokio::time::sleep(LINGER).await;
            drop(due);
            // A writer that has gone has settled everything.
            if let Some(writer) = writer.upgrade() {
                let _ = writer.queue.send(Message::Flush).await;
            }
        });
    }

    /// Writes on this thread what was promised and put aside. Waits only for a moment for another process
    /// that is writing: whoever reads then sees what is there.
    pub(crate) fn flush(&self) {
        self.desk.flush(&self.aside);
    }

    /// Writes in passing if nobody else is writing, and else queues it.
    async fn take(&self, job: Box<dyn Job>) -> Result<(), StoreError> {
        let passed = if self.queue.capacity() == QUEUE_MAX {
            self.desk.write_in_passing(job, &self.aside)
        } else {
            // Nobody overtakes those who wait.
            Err(job)
        };
        match passed {
            Ok(()) => Ok(()),
            Err(job) => self.queue.send(Message::Job(job)).await.map_err(|_| StoreError::Closed),
        }
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
    /// Only what was promised and put aside.
    Flush,
    Close(oneshot::Sender<()>),
}

/// One piece of work with whoever waits for it, whatever its type.
trait Job: Send {
    /// Does it inside the open transaction.
    fn run(&mut self, connection: &Connection) -> Result<(), Failure>;

    /// Tells how it ended, after the commit.
    fn settle(self: Box<Self>, end: Result<(), StoreError>);
}

struct Typed<T, A: FnOnce(Result<T, StoreError>)> {
    work: Option<Work<T>>,
    after: Option<Box<dyn FnOnce() + Send>>,
    value: Option<T>,
    answer: Option<A>,
}

impl<T: Send, A: FnOnce(Result<T, StoreError>) + Send> Job for Typed<T, A> {
    fn run(&mut self, connection: &Connection) -> Result<(), Failure> {
        if let Some(work) = self.work.take() {
            self.value = Some(work(connection)?);
        }
        Ok(())
    }

    fn settle(mut self: Box<Self>, end: Result<(), StoreError>) {
        let result = match (end, self.value.take()) {
            (Ok(()), Some(value)) => {
                if let Some(after) = self.after.take() {
                    after();
                }
                Ok(value)
            }
            (Ok(()), None) => Err(StoreError::Closed),
            (Err(error), _) => Err(error),
        };
        if let Some(answer) = self.answer.take() {
            answer(result);
        }
    }
}

impl<T, A: FnOnce(Result<T, StoreError>)> Drop for Typed<T, A> {
    /// Whoever waits is told even if the writer has gone before it came to this.
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer(Err(StoreError::Closed));
        }
    }
}

/// What was put aside. It does not grow without end: everything in it has followed something of its own that
/// was written or promised, and each commit takes along what is here.
#[derive(Clone, Default)]
struct Pile(Arc<Mutex<Vec<Box<dyn Job>>>>);

impl Pile {
    fn add(&self, job: Box<dyn Job>) {
        self.lock().push(job);
    }

    fn take(&self) -> Vec<Box<dyn Job>> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<dyn Job>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Pile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pile").finish_non_exhaustive()
    }
}

/// Where writing happens: by the thread, or by whoever finds it free.
#[derive(Debug)]
struct Desk {
    /// Nothing once the file is closed.
    connection: Mutex<Option<Connection>>,
    place: Place,
    /// Whether a commit waits for no disk, so that it may be made in passing.
    prompt: bool,
    journal: Option<Journal>,
    /// Somebody will flush soon.
    flush_due: AtomicBool,
    commits: AtomicU32,
    nudge: Option<SyncSender<()>>,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Option<Connection>> {
        // SQLite's own transaction is what a panic leaves halfway, and that is given up.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a batch in one transaction and tells everybody how it ended.
    fn write(&self, mut batch: Vec<Box<dyn Job>>) {
        if batch.is_empty() && self.is_settled() {
            return;
        }
        let ends = match &*self.lock() {
            Some(connection) => begin(connection)
                .map_err(|error| self.not_begun(error))
                .and_then(|()| self.run_all(connection, &mut batch)),
            None => Err(StoreError::Closed),
        };
        self.settle(batch, ends);
    }

    /// The same right here, if nobody else is writing; otherwise the job comes back.
    fn write_in_passing(&self, job: Box<dyn Job>, aside: &Pile) -> Result<(), Box<dyn Job>> {
        let guard = match self.connection.try_lock() {
            Ok(guard) if self.prompt => guard,
            _ => return Err(job),
        };
        let Some(connection) = &*guard else { return Err(job) };
        // Another process that is writing is waited for by the thread, which also says what is wrong.
        if !self.begin_at_once(connection) {
            return Err(job);
        }
        let mut batch = aside.take();
        batch.push(job);
        let ends = self.run_all(connection, &mut batch);
        drop(guard);
        self.settle(batch, ends);
        Ok(())
    }

    /// Does what was promised and put aside, unless others go on writing.
    fn flush(&self, aside: &Pile) {
        let until = Instant::now() + FLUSH_PATIENCE;
        while !(self.is_settled() && aside.lock().is_empty()) {
            if let Ok(guard) = self.connection.try_lock() {
                let Some(connection) = &*guard else { return };
                if self.begin_at_once(connection) {
                    let mut batch = aside.take();
                    let ends = self.run_all(connection, &mut batch);
                    drop(guard);
                    return self.settle(batch, ends);
                }
            }
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(FLUSH_PAUSE);
        }
    }

    /// Begins a transaction if that needs no waiting.
    fn begin_at_once(&self, connection: &Connection) -> bool {
        let begun = connection.busy_timeout(Duration::ZERO).and_then(|()| begin(connection));
        connection.busy_timeout(self.place.patience).is_ok() && begun.is_ok()
    }

    fn not_begun(&self, error: rusqlite::Error) -> StoreError {
        let error = self.place.explain(error);
        if let Some(journal) = &self.journal {
            journal.failed(&error);
        }
        error
    }

    fn is_settled(&self) -> bool {
        self.journal.as_ref().is_none_or(Journal::is_settled)
    }

    /// Does a batch in a transaction that has begun, after what was promised before it. Tells how each job
    /// ended; an error if nothing of the whole batch was kept.
    fn run_all(
        &self,
        connection: &Connection,
        batch: &mut [Box<dyn Job>],
    ) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let Some(journal) = &self.journal else {
            return run_all(connection, batch, &self.place, 0);
        };
        let ends = journal
            .keep_all(connection)
            .map_err(|failure| self.give_up(connection, failure))
            .and_then(|kept| {
                let ends = run_all(connection, batch, &self.place, kept)?;
                journal.committed(kept);
                Ok(ends)
            });
        if let Err(error) = &ends {
            journal.failed(error);
        }
        ends
    }

    /// What was promised cannot be kept, and nothing may come before it: what comes later may build on it.
    fn give_up(&self, connection: &Connection, failure: Failure) -> StoreError {
        if !connection.is_autocommit() {
            // The next transaction finds out if this has failed.
            let _ = execute(connection, "ROLLBACK");
        }
        self.place.explain(failure)
    }

    fn close(&self) {
        drop(self.lock().take());
        if let Some(journal) = &self.journal {
            journal.close();
        }
    }

    fn settle(
        &self,
        batch: Vec<Box<dyn Job>>,
        ends: Result<Vec<Result<(), StoreError>>, StoreError>,
    ) {
        if self.commits.fetch_add(1, Ordering::Relaxed) + 1 >= COMMITS_BEFORE_CHECKPOINT {
            self.commits.store(0, Ordering::Relaxed);
            // If it has been told before and has not come to it, once is enough.
            let _ = self.nudge.as_ref().map(|nudge| nudge.try_send(()));
        }
        let ends = ends.unwrap_or_else(|error| vec![Err(error); batch.len()]);
        for (job, end) in batch.into_iter().zip(ends) {
            job.settle(end);
        }
    }
}

/// Somebody will flush soon, as long as this is held.
struct FlushDue(Arc<Desk>);

impl FlushDue {
    /// Nothing if somebody has it already.
    fn new(desk: &Arc<Desk>) -> Option<Self> {
        let had = desk.flush_due.swap(true, Ordering::AcqRel);
        (!had).then(|| Self(Arc::clone(desk)))
    }
}

impl Drop for FlushDue {
    fn drop(&mut self) {
        self.0.flush_due.store(false, Ordering::Release);
    }
}

fn work(desk: &Desk, mut jobs: mpsc::Receiver<Message>, aside: &Pile) {
    while let Some(first) = jobs.blocking_recv() {
        let (batch, close) = collect(first, &mut jobs, aside);
        if let (Some(_), Some(journal)) = (&close, &desk.journal) {
            journal.stop();
        }
        desk.write(batch);
        if let Some(closed) = close {
            jobs.close();
            desk.close();
            let _ = closed.send(());
            return;
        }
    }
    // The last handle has gone.
    desk.write(aside.take());
    desk.close();
}

/// What was put aside and what is queued now, up to a closing.
fn collect(
    first: Message,
    jobs: &mut mpsc::Receiver<Message>,
    aside: &Pile,
) -> (Vec<Box<dyn Job>>, Option<oneshot::Sender<()>>) {
    let mut batch = aside.take();
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

fn begin(connection: &Connection) -> rusqlite::Result<()> {
    execute(connection, "BEGIN IMMEDIATE")
}

/// Does a batch in a transaction that has begun and in which some promises were kept. Tells how each job
/// ended; an error if nothing of all that was kept.
fn run_all(
    connection: &Connection,
    batch: &mut [Box<dyn Job>],
    place: &Place,
    promises: usize,
) -> Result<Vec<Result<(), StoreError>>, StoreError> {
    let explain = |error: rusqlite::Error| place.explain(error);
    let alone = batch.len() + promises == 1;
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
    let keep = promises > 0 || ends.iter().any(Result::is_ok);
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
