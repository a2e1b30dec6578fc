//! Marks: states of a session that it can be set back to. They end with the session.
//!
//! Tests: `tests/it/server/branching.rs`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use silica_domain::BranchOptions;
use silica_engine::{Carried, Engine, Frozen};
use silica_store::audit::{Activity, Finish};
use tokio::sync::oneshot;

use crate::audit;
use crate::branching::BUSY_PATIENCE;
use crate::error::SessionError;
use crate::kernel::UndoJob;
use crate::session::Session;
use crate::sessions::Sessions;

/// The most marks of one session; a further one replaces the oldest.
const MARKS_MAX: usize = 8;

/// A state of a session.
#[derive(Debug)]
pub struct Mark {
    number: u64,
    /// How many cells its kernel had begun.
    pub(crate) cells_begun: u64,
    pub(crate) engine: Arc<Engine>,
    pub(crate) frozen: Frozen,
}

impl Mark {
    /// Returns its id, unique in its sandbox.
    pub fn id(&self) -> String {
        format!("m{}", self.number)
    }

    /// Returns how many cells its kernel had begun.
    pub fn cells(&self) -> u64 {
        self.cells_begun
    }
}

/// Which mark a session is set back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoTo {
    /// The newest one before the last so many cells.
    Cells(u64),
    /// The one with this id.
    Mark(String),
}

/// The marks of a session, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<(u64, VecDeque<Arc<Mark>>)>);

impl Marks {
    fn lock(&self) -> MutexGuard<'_, (u64, VecDeque<Arc<Mark>>)> {
        // A panic while the lock is held leaves no broken invariant.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, cells_begun: u64, engine: Arc<Engine>, frozen: Frozen) -> Arc<Mark> {
        let mut marks = self.lock();
        marks.0 += 1;
        let mark = Arc::new(Mark { number: marks.0, cells_begun, engine, frozen });
        marks.1.push_back(Arc::clone(&mark));
        let oldest = if marks.1.len() > MARKS_MAX { marks.1.pop_front() } else { None };
        drop(marks);
        // Outside of the lock: the end of a mark ends a sandbox.
        drop(oldest);
        mark
    }

    pub(crate) fn newest(&self) -> Option<Arc<Mark>> {
        self.lock().1.back().cloned()
    }

    fn find(&self, to: &UndoTo, cells_begun: u64) -> Option<Arc<Mark>> {
        let marks = self.lock();
        let fits = |mark: &&Arc<Mark>| match to {
            UndoTo::Cells(cells) => mark.cells_begun + cells <= cells_begun,
            UndoTo::Mark(id) => mark.id() == *id,
        };
        marks.1.iter().rev().find(fits).cloned()
    }

    /// Forgets the marks that are newer than `mark`.
    pub(crate) fn forget_after(&self, mark: &Mark) {
        let newer: Vec<_> = {
            let mut marks = self.lock();
            let first = marks.1.iter().position(|one| one.number > mark.number);
            first.map(|first| marks.1.drain(first..).collect()).unwrap_or_default()
        };
        drop(newer);
    }

    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut self.lock().1);
        drop(all);
    }
}

impl Sessions {
    /// Marks the state of a session between two cells.
    pub async fn mark(&self, session: &Arc<Session>) -> Result<Arc<Mark>, SessionError> {
        session.ensure_open()?;
        let options = BranchOptions::default();
        let (engine, frozen, cells_begun) =
            self.freeze(session, &options, Carried::Everything).await?;
        // One that has ended meanwhile would keep it for nothing.
        session.touch()?;
        Ok(session.marks.add(cells_begun, engine, frozen))
    }

    /// Sets a session back to a mark: variables and files are those of that moment.
    pub async fn undo(
        &self,
        session: &Arc<Session>,
        to: UndoTo,
    ) -> Result<Arc<Mark>, SessionError> {
        session.ensure_open()?;
        let kernel = session.kernel(None)?;
        let mark = session.marks.find(&to, kernel.cells_begun()).ok_or(SessionError::NoMark)?;
        let ticket = audit::begin_operation(session, Activity::Undo)?.await?;
        let (reply, done) = oneshot::channel();
        kernel.undo(UndoJob { mark: Arc::clone(&mark), reply });
        let done = match tokio::time::timeout(BUSY_PATIENCE, done).await {
            Ok(Ok(done)) => done,
            // The kernel has ended.
            Ok(Err(_)) => Err(SessionError::NoKernel("k1".to_owned())),
            Err(_) => Err(SessionError::Busy(BUSY_PATIENCE)),
        };
        let mut finish = Finish::new(if done.is_ok() { "ok" } else { "refused" });
        finish.details.insert("mark".to_owned(), mark.id());
        audit::finish(session, ticket, &finish);
        done.map(|()| mark)
    }
}
