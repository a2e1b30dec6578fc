//! Sandboxes kept ready with their interpreter already in, so that a create is a hand-over.
//!
//! The refill runs beside; taking one out never waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use silica_domain::Containment;
use silica_jail::protocol::{EnclosureSpec, Origin};
use tokio::sync::Notify;

use crate::command::Surroundings;
use crate::sandbox::{CreateError, Faults, Plan, Sandbox};
use crate::zone::ZoneHandle;

/// How long a refill waits after a sandbox was taken, unless none is left.
const REFILL_PAUSE: Duration = Duration::from_millis(10);

/// How long an interpreter is left alone after its first word, while it rehearses, before it counts as ready.
const REHEARSAL_PAUSE: Duration = Duration::from_millis(1);

/// How long a failed refill waits before the next.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A pool of equal sandboxes.
#[derive(Debug)]
pub(crate) struct Pool {
    spec: EnclosureSpec,
    origin: Origin,
    surroundings: Arc<Surroundings>,
    size: usize,
    ready: Mutex<VecDeque<Sandbox>>,
    changed: Notify,
    stopped: std::sync::atomic::AtomicBool,
}

impl Pool {
    /// Starts filling.
    pub(crate) fn start(
        zone: ZoneHandle,
        plan: Plan,
        containment: Containment,
        size: usize,
    ) -> Arc<Self> {
        let pool = Arc::new(Self {
            spec: plan.spec,
            origin: plan.origin,
            surroundings: plan.surroundings,
            size,
            ready: Mutex::default(),
            changed: Notify::new(),
            stopped: false.into(),
        });
        tokio::spawn(fill(Arc::clone(&pool), zone, containment));
        pool
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Sandbox>> {
        // A queue has no invariant that a panic elsewhere could have broken halfway.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ready sandbox, if this pool holds such and has one.
    pub(crate) fn take(&self, spec: &EnclosureSpec, origin: &Origin) -> Option<Sandbox> {
        let same_kind = matches!(
            (&self.origin, origin),
            (Origin::Zygote, Origin::Zygote) | (Origin::Program(_), Origin::Program(_))
        );
        if *spec != self.spec || !same_kind {
            return None;
        }
        let mut ready = self.lock();
        // One that died while it waited is dropped, and so ended, on the way.
        let taken = std::iter::from_fn(|| ready.pop_front()).find(Sandbox::is_alive);
        drop(ready);
        self.changed.notify_one();
        taken
    }

    /// How many stand ready.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Stops filling and ends those that stand ready.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, std::sync::atomic::Ordering::Relaxed);
        self.lock().clear();
        self.changed.notify_one();
    }
}

async fn fill(pool: Arc<Pool>, zone: ZoneHandle, containment: Containment) {
    loop {
        while pool.len() < pool.size {
            if pool.stopped.load(std::sync::atomic::Ordering::Relaxed) {
                return;
            }
            match make(&pool, &zone, &containment).await {
                Ok(sandbox) => pool.lock().push_back(sandbox),
                // Nothing will ever be made in it again.
                Err(_) if zone.is_gone() => return,
                Err(error) => {
                    complain(&error);
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
        if pool.stopped.load(std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        pool.changed.notified().await;
        // Whoever took one is about to use it: stay out of the way of its first cell.
        if pool.len() > 0 {
            tokio::time::sleep(REFILL_PAUSE).await;
        }
    }
}

fn complain(error: &CreateError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "a sandbox for the pool could not be made");
}

/// Makes one that somebody can use at once.
async fn make(
    pool: &Pool,
    zone: &ZoneHandle,
    containment: &Containment,
) -> Result<Sandbox, CreateError> {
    let plan = Plan {
        spec: pool.spec.clone(),
        inputs: Vec::new(),
        origin: pool.origin.clone(),
        faults: Faults::default(),
        surroundings: Arc::clone(&pool.surroundings),
    };
    let mut sandbox = Sandbox::create(zone, plan, containment.clone()).await?;
    sandbox.ready().await?;
    sandbox.look_ahead();
    tokio::time::sleep(REHEARSAL_PAUSE).await;
    Ok(sandbox)
}
