//! How long a session lives, and how it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use silica_engine::TierError;
use silica_store::Timestamp;

use super::Session;
use crate::cell::{Cell, CellPhase};
use crate::command::CommandPhase;
use crate::error::SessionError;
use crate::kernel::KernelPhase;

/// How long the ends of cells and commands are waited for when their sandbox ends.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// How long somebody else's ending of a sandbox is waited for.
const GONE_PATIENCE: Duration = Duration::from_secs(30);

/// Why a sandbox has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Its owner ended it.
    Deleted,
    /// Its time was up.
    Expired,
    /// Nobody used it.
    Idle,
    /// It had run as many cells as it may.
    MaxCells,
    /// All of it was killed for lack of memory.
    OutOfMemory,
    /// It ended by itself, or was killed from outside.
    Died,
    /// The server went down.
    Shutdown,
}

impl EndReason {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Expired => "expired",
            Self::Idle => "idle",
            Self::MaxCells => "max_cells",
            Self::OutOfMemory => "out_of_memory",
            Self::Died => "died",
            Self::Shutdown => "shutdown",
        }
    }

    /// What happened, for people.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Deleted => "its owner deleted it",
            Self::Expired => "its time was up",
            Self::Idle => "nobody used it for longer than its idle time",
            Self::MaxCells => "it has run as many cells as it may",
            Self::OutOfMemory => "it was killed for using more memory than it may",
            Self::Died => "it ended by itself or was killed from outside",
            Self::Shutdown => "the server was shut down",
        }
    }
}

/// How a life is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeChange {
    /// It becomes longer, or stays as it is.
    Extend,
    /// It becomes longer or shorter.
    Set,
}

impl Session {
    /// Has it live this long from now: at least, or exactly.
    pub(crate) async fn set_life(
        &self,
        ttl: Duration,
        change: LifeChange,
    ) -> Result<Timestamp, SessionError> {
        self.use_it()?;
        let expires_at = {
            let mut inner = self.lock();
            let expires = Instant::now() + ttl;
            if expires > inner.expires || change == LifeChange::Set {
                inner.expires = expires;
                inner.expires_at = Timestamp::now().after(ttl);
            }
            inner.expires_at
        };
        self.store.sandboxes().set_expiry(self.id(), Some(expires_at)).await?;
        Ok(expires_at)
    }

    /// Why it should be ended now, if it should.
    pub(crate) fn overdue(&self) -> Option<EndReason> {
        let (inner, now) = (self.lock(), Instant::now());
        if now >= inner.expires {
            return Some(EndReason::Expired);
        }
        let waits = |cell: &Arc<Cell>| matches!(cell.phase(), CellPhase::AwaitingApproval);
        let busy = inner.cells.iter().any(waits)
            || inner.kernels.iter().any(|kernel| kernel.info().phase == KernelPhase::Busy)
            || inner
                .commands
                .iter()
                .any(|command| matches!(command.phase(), CommandPhase::Running));
        let idle = self.terms.idle.is_some_and(|idle| now >= inner.last_used + idle);
        let spent = self.cells_run.load(Ordering::Relaxed) >= self.terms.max_cells;
        match (busy, spent, idle) {
            (false, true, _) => Some(EndReason::MaxCells),
            (false, false, true) => Some(EndReason::Idle),
            (true, _, _) | (false, false, false) => None,
        }
    }

    /// Marks it as ended; false if it was already.
    pub(crate) fn mark_ended(&self, reason: EndReason) -> bool {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(reason);
            first
        })
    }

    pub(crate) fn mark_gone(&self) {
        self.gone.send_replace(true);
    }

    /// Waits until nobody finds it any more, which somebody else sees to.
    pub(crate) async fn gone(&self) {
        let mut gone = self.gone.subscribe();
        // Bounded as what is waited for is.
        let _ = tokio::time::timeout(GONE_PATIENCE, gone.wait_for(|gone| *gone)).await;
    }

    /// Waits until it has ended, or is about to.
    pub async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // The sender lives in this very session.
        let _ = ended.wait_for(Option::is_some).await;
    }

    /// Why it has ended, if it has.
    pub fn end_reason(&self) -> Option<EndReason> {
        *self.ended.borrow()
    }

    /// Kills everything in it.
    pub(crate) async fn kill(&self) {
        self.complain(self.sandbox.kill().await, "a sandbox could not be killed");
        // For its owner it is gone; for the server it counts until it has been cleared away.
        self.terms.place.give_back_to_key();
    }

    fn complain(&self, end: Result<(), TierError>, words: &str) {
        match end {
            // A zone that has gone took everything along.
            Ok(()) | Err(TierError::Gone) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, sandbox = %self.id(), "{words}");
            }
        }
    }

    /// Clears it away once it has been killed; returns when nothing is left.
    pub(crate) async fn take_down(&self) {
        let (kernels, cells, commands) = {
            let mut inner = self.lock();
            inner.watchers.clear();
            let kernels = std::mem::take(&mut inner.kernels);
            (kernels, inner.cells.clone(), inner.commands.clone())
        };
        self.complain(self.sandbox.destroy().await, "a sandbox could not be ended");
        // What ran has ended with the sandbox and finds out by itself, and so says what is true.
        for kernel in &kernels {
            kernel.close_after_cell();
        }
        let last_words = || async {
            for cell in &cells {
                // One that was never recorded leaves nothing behind.
                let _ = cell.done().await;
            }
            for command in &commands {
                command.done().await;
            }
        };
        // Their records are all that is waited for; nothing runs any more.
        if tokio::time::timeout(END_PATIENCE, last_words()).await.is_err() {
            for kernel in &kernels {
                kernel.close();
            }
            // Whoever has not ended now never will.
            let _ = tokio::time::timeout(END_PATIENCE, last_words()).await;
        }
    }
}
