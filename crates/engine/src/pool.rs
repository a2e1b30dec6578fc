//! Sandboxes kept ready with their interpreter already in, so that a create is a hand-over.
//!
//! The refill runs beside; taking one out never waits for it. The jail keeps a pool of its own
//! below this one, of inits in their namespaces without an interpreter.
//!
//! Tests: `tests/it/jail/forks.rs`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::sandbox::{CreateError, Created, Sandbox, SandboxPlan};
use crate::tier::TierDriver;

/// How long a refill waits after a sandbox was taken, unless none is left.
const REFILL_PAUSE: Duration = Duration::from_millis(10);

/// How long an interpreter rehearses after its hello before it counts as ready.
// A fork runs one cell of its own after its hello, so that a first cell finds most pages copied
// (docs/design/zygote.md).
const REHEARSAL_PAUSE: Duration = Duration::from_millis(1);

/// How long a failed refill waits before the next.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A pool of equal sandboxes.
#[derive(Debug)]
pub(crate) struct Pool {
    plan: SandboxPlan,
    size: usize,
    ready: Mutex<VecDeque<Created>>,
    changed: Notify,
    stopped: AtomicBool,
}

impl Pool {
    /// Starts a pool and the task that fills it.
    pub(crate) fn start(tier: Arc<dyn TierDriver>, plan: SandboxPlan, size: usize) -> Arc<Self> {
        let pool = Arc::new(Self {
            plan,
            size,
            ready: Mutex::default(),
            changed: Notify::new(),
            stopped: AtomicBool::new(false),
        });
        tokio::spawn(fill(Arc::clone(&pool), tier));
        pool
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Created>> {
        // A queue has no invariant that a panic elsewhere could have broken halfway.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a ready sandbox for this plan, if the pool holds such sandboxes and has one.
    pub(crate) fn take(&self, plan: &SandboxPlan) -> Option<Created> {
        if !self.plan.is_like(plan) {
            return None;
        }
        let mut ready = self.lock();
        // One that died while it waited is dropped, and so ended, on the way.
        let taken =
            std::iter::from_fn(|| ready.pop_front()).find(|created| created.kernel.is_alive());
        drop(ready);
        // Keeps one permit: a sandbox taken between the look at the queue and the wait is not
        // missed.
        self.changed.notify_one();
        taken
    }

    /// Returns how many sandboxes are ready.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Stops filling and ends the sandboxes that are ready.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        // A sandbox that is being made now is added later, and ends when the pool is dropped.
        self.lock().clear();
        self.changed.notify_one();
    }
}

async fn fill(pool: Arc<Pool>, tier: Arc<dyn TierDriver>) {
    loop {
        while pool.len() < pool.size {
            if pool.stopped.load(Ordering::Relaxed) {
                return;
            }
            match make(&pool, &*tier).await {
                Ok(created) => pool.lock().push_back(created),
                // A tier that has ended makes no more sandboxes.
                Err(_) if tier.is_gone() => return,
                Err(error) => {
                    warn(&error);
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
        if pool.stopped.load(Ordering::Relaxed) {
            return;
        }
        pool.changed.notified().await;
        // The sandbox that was taken is about to run its first cell, which a refill would slow
        // down.
        if pool.len() > 0 {
            tokio::time::sleep(REFILL_PAUSE).await;
        }
    }
}

fn warn(error: &CreateError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "a sandbox for the pool could not be made");
}

/// Makes one that can be used at once: its interpreter has rehearsed, its files have been looked
/// at.
async fn make(pool: &Pool, tier: &dyn TierDriver) -> Result<Created, CreateError> {
    let mut created = Sandbox::create(tier, pool.plan.clone()).await?;
    created.kernel.ready().await.map_err(CreateError::Kernel)?;
    // While the interpreter rehearses, so that the first cell need not look at the files.
    created.snapshot = created.sandbox.files().glance().ok().flatten();
    tokio::time::sleep(REHEARSAL_PAUSE).await;
    Ok(created)
}
