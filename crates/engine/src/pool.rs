//! Sandboxes kept ready with their interpreter already in, so that a create is a hand-over.
//!
//! The refill runs beside; taking one out never waits for it. The jail keeps a pool of its own below
//! this one, of inits in their namespaces without an interpreter.
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

/// How long an interpreter rehearses after its first word before it counts as ready.
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
    /// Starts filling.
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

    /// A ready sandbox for this plan, if the pool holds such sandboxes and has one.
    pub(crate) fn take(&self, plan: &SandboxPlan) -> Option<Created> {
        if !self.plan.is_like(plan) {
            return None;
        }
        let mut ready = self.lock();
        // One that died while it waited is dropped, and so ended, on the way.
        let taken =
            std::iter::from_fn(|| ready.pop_front()).find(|created| created.kernel.is_alive());
        drop(ready);
        self.changed.notify_one();
        taken
    }

    /// How many sandboxes are ready.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Stops filling and ends the sandboxes that are ready.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
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
        // The sandbox that was taken is about to run its first cell, which a refill would slow down.
        if pool.len() > 0 {
            tokio::time::sleep(REFILL_PAUSE).await;
        }
    }
}

fn warn(error: &CreateError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "a sandbox for the pool could not be made");
}

/// Makes one that can be used at once: its interpreter has rehearsed, its files have been looked at.
async fn make(pool: &Pool, tier: &dyn TierDriver) -> Result<Created, CreateError> {
    let mut created = Sandbox::create(tier, pool.plan.clone()).await?;
    created.kernel.ready().await.map_err(CreateError::Kernel)?;
    created.snapshot = created.sandbox.files().glance().ok().flatten();
    tokio::time::sleep(REHEARSAL_PAUSE).await;
    Ok(created)
}
