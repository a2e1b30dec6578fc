//! How long a session lives, and how it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use silica_engine::TierError;
use silica_store::Timestamp;

use super::Session;
use crate::cell::{Cell, CellPhase};
use crate::command::{Command, CommandPhase};
use crate::error::SessionError;
use crate::kernel::KernelPhase;

/// How long the ends of cells and commands are waited for when their sandbox ends.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// How long a session that another task ends is waited for.
const REMOVED_PATIENCE: Duration = Duration::from_secs(30);

/// Why a sandbox has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Its owner deleted it.
    Deleted,
    /// Its lifetime is over.
    Expired,
    /// It was not used for its idle time.
    Idle,
    /// It has run as many cells as it may.
    MaxCells,
    /// All of its processes were killed for lack of memory.
    OutOfMemory,
    /// Its first process ended, or was killed from outside.
    Died,
    /// The key of its owner was revoked.
    Revoked,
    /// The server was shut down.
    Shutdown,
}

impl EndReason {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Expired => "expired",
            Self::Idle => "idle",
            Self::MaxCells => "max_cells",
            Self::OutOfMemory => "out_of_memory",
            Self::Died => "died",
            Self::Revoked => "revoked",
            Self::Shutdown => "shutdown",
        }
    }

    /// Returns what happened, as part of a sentence.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Deleted => "its owner deleted it",
            Self::Expired => "its ttl_seconds were over",
            Self::Idle => "it was not used for its idle_seconds",
            Self::MaxCells => "it has run its max_cells",
            Self::OutOfMemory => "it used more memory than its limit and was killed",
            Self::Died => "its first process ended or was killed from outside",
            Self::Revoked => "the key of its owner was revoked",
            Self::Shutdown => "the server was shut down",
        }
    }
}

/// How a lifetime is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeChange {
    /// It becomes longer, or stays as it is.
    Extend,
    /// It becomes longer or shorter.
    Set,
}

impl Session {
    pub(crate) async fn set_life(
        &self,
        ttl: Duration,
        change: LifeChange,
    ) -> Result<Timestamp, SessionError> {
        self.touch()?;
        let expires_at = {
            let mut items = self.lock();
            let expires = Instant::now() + ttl;
            if expires > items.expires || change == LifeChange::Set {
                items.expires = expires;
                items.expires_at = Timestamp::now().after(ttl);
            }
            items.expires_at
        };
        self.services.store.sandboxes().set_expiry(self.id(), Some(expires_at)).await?;
        Ok(expires_at)
    }

    /// Returns why it must be ended now; `None` if it may live on.
    pub(crate) fn overdue(&self) -> Option<EndReason> {
        let items = self.lock();
        let now = Instant::now();
        if now >= items.expires {
            return Some(EndReason::Expired);
        }
        let waits = |cell: &Arc<Cell>| matches!(cell.phase(), CellPhase::AwaitingApproval);
        let runs = |command: &Arc<Command>| matches!(command.phase(), CommandPhase::Running);
        let busy = items.cells.iter().any(waits)
            || items.kernels.iter().any(|kernel| kernel.info().phase == KernelPhase::Busy)
            || items.commands.iter().any(runs);
        let idle = self.terms.idle.is_some_and(|idle| now >= items.last_used + idle);
        let spent = self.cells_run.load(Ordering::Relaxed) >= self.terms.max_cells;
        match (busy, spent, idle) {
            (false, true, _) => Some(EndReason::MaxCells),
            (false, false, true) => Some(EndReason::Idle),
            (true, _, _) | (false, false, false) => None,
        }
    }

    /// Marks it as ended; returns false if it was already.
    pub(crate) fn mark_ended(&self, reason: EndReason) -> bool {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(reason);
            first
        })
    }

    pub(crate) fn mark_removed(&self) {
        self.removed.send_replace(true);
    }

    /// Waits until it is removed from the live sessions, for at most `REMOVED_PATIENCE`.
    pub(crate) async fn removed(&self) {
        let mut removed = self.removed.subscribe();
        // After a timeout the caller goes on: the task that ends it is still at work.
        let _ = tokio::time::timeout(REMOVED_PATIENCE, removed.wait_for(|removed| *removed)).await;
    }

    /// Waits until it has ended, or begins to.
    pub async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // The only error is a dropped sender, and the sender is a field of `self`.
        let _ = ended.wait_for(Option::is_some).await;
    }

    /// Returns why it has ended; `None` while it lives.
    pub fn end_reason(&self) -> Option<EndReason> {
        *self.ended.borrow()
    }

    /// Kills every process in it. From then on it does not count for its owner's quota.
    pub(crate) async fn kill(&self) {
        self.network.close();
        self.ports.close().await;
        self.log_failure(self.sandbox.kill().await, "a sandbox could not be killed");
        self.slot.release_key();
    }

    fn log_failure(&self, result: Result<(), TierError>, message: &str) {
        match result {
            // If the zone has died, all its sandboxes have died with it.
            Ok(()) | Err(TierError::Gone) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, sandbox = %self.id(), "{message}");
            }
        }
    }

    /// Releases the resources of a session that was killed, and waits for the records of its cells and
    /// commands.
    pub(crate) async fn release(&self) {
        let (kernels, cells, commands) = {
            let mut items = self.lock();
            items.watchers.clear();
            let kernels = std::mem::take(&mut items.kernels);
            (kernels, items.cells.clone(), items.commands.clone())
        };
        self.marks.clear();
        self.log_failure(self.sandbox.destroy().await, "a sandbox could not be ended");
        // Running cells notice by themselves that the sandbox has ended, and report that as their outcome.
        for kernel in &kernels {
            kernel.close_after_cell();
        }
        let all_recorded = || async {
            for cell in &cells {
                // The error is that the beginning was not recorded; then there is no end to record.
                let _ = cell.done().await;
            }
            for command in &commands {
                command.done().await;
            }
        };
        if tokio::time::timeout(END_PATIENCE, all_recorded()).await.is_err() {
            for kernel in &kernels {
                kernel.close();
            }
            // After the second timeout the records stay unfinished, which is what the audit log then says.
            let _ = tokio::time::timeout(END_PATIENCE, all_recorded()).await;
        }
    }
}
