//! Jobs: work for one transaction, with the function that receives its result.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::StoreError;
use crate::error::Failure;

/// What is done in a transaction.
pub(super) type Work<T> = Box<dyn FnOnce(&Connection) -> Result<T, Failure> + Send>;

/// A piece of work and the caller that waits for it, whatever its type.
pub(super) trait Job: Send {
    /// Does the work inside the open transaction.
    fn run(&mut self, connection: &Connection) -> Result<(), Failure>;

    /// Answers the caller, after the transaction has ended.
    fn finish(self: Box<Self>, end: Result<(), StoreError>);
}

/// A job whose work returns a `T`.
pub(super) struct JobOf<T, A: FnOnce(Result<T, StoreError>)> {
    work: Option<Work<T>>,
    /// Called after the commit, before the answer.
    after: Option<Box<dyn FnOnce() + Send>>,
    value: Option<T>,
    answer: Option<A>,
}

impl<T: Send + 'static, A: FnOnce(Result<T, StoreError>) + Send + 'static> JobOf<T, A> {
    pub(super) fn boxed(
        work: Work<T>,
        after: Option<Box<dyn FnOnce() + Send>>,
        answer: A,
    ) -> Box<dyn Job> {
        Box::new(Self { work: Some(work), after, value: None, answer: Some(answer) })
    }
}

impl<T: Send, A: FnOnce(Result<T, StoreError>) + Send> Job for JobOf<T, A> {
    fn run(&mut self, connection: &Connection) -> Result<(), Failure> {
        if let Some(work) = self.work.take() {
            self.value = Some(work(connection)?);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, end: Result<(), StoreError>) {
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

impl<T, A: FnOnce(Result<T, StoreError>)> Drop for JobOf<T, A> {
    /// Answers the caller if the writer has ended before the job was run.
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer(Err(StoreError::Closed));
        }
    }
}

/// The jobs that wait to share a commit. It needs no bound: each job in it follows a write of its
/// own that was committed or is in the journal, and each commit takes all of them along.
#[derive(Clone, Default)]
pub(super) struct Deferred(Arc<Mutex<Vec<Box<dyn Job>>>>);

impl Deferred {
    pub(super) fn add(&self, job: Box<dyn Job>) {
        self.lock().push(job);
    }

    pub(super) fn take(&self) -> Vec<Box<dyn Job>> {
        std::mem::take(&mut *self.lock())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<dyn Job>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Deferred {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Deferred").finish_non_exhaustive()
    }
}
