//! Fair use: enforces the quota of each key and the capacity of the server.
//!
//! Everything that runs code takes a slot in a bounded queue, then waits for a permit. Creating a sandbox needs a
//! permit too; its queue is bounded by the number of sandboxes a key may have. Permits are granted round robin
//! over the keys, so that a thousand queued cells of one key delay the only cell of another key by one cell. A few
//! permits are reserved for keys that hold none, so that cells which run for hours do not delay it either.

mod bucket;
mod semaphore;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use silica_store::Tenant;

use bucket::Bucket;
pub(crate) use semaphore::Permit;
use semaphore::{FairSemaphore, PermitBounds};

/// When to try again if there are too many sandboxes.
const SANDBOX_RETRY: Duration = Duration::from_secs(5);

/// When to try again if the queue is full.
const QUEUE_RETRY: Duration = Duration::from_secs(1);

/// The quota of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// Requests per second on average.
    pub requests_per_second: f64,
    /// Requests that may come at once after a pause.
    pub request_burst: f64,
    /// Live sandboxes.
    pub sandboxes: usize,
    /// Running cells.
    pub running: usize,
    /// Queued cells.
    pub queued: usize,
    /// Bytes uploaded in a minute.
    pub upload_bytes_per_minute: u64,
    /// Bytes of output in a minute.
    pub output_bytes_per_minute: u64,
    /// Processor seconds in a minute; 0 for no limit.
    pub cpu_seconds_per_minute: u64,
}

/// The capacity of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Running cells.
    pub running: usize,
    /// Running cells beyond `running`, of keys that have no other running cell.
    pub reserved: usize,
    /// Queued cells.
    pub queued: usize,
    /// Live sandboxes.
    pub sandboxes: usize,
    /// Sandboxes and interpreters that are being created; one key may create half of them.
    pub creating: usize,
}

/// Why a request was not admitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The key sends too many requests; when to try again.
    #[error("this key sends more requests per second than its quota allows")]
    Rate(Duration),
    /// A quota of the key, or the capacity of the server, is used up.
    #[error("the quota is used up: at most {most} {what}")]
    Quota {
        /// What is counted.
        what: &'static str,
        /// The quota.
        most: u64,
        /// When to try again.
        retry: Duration,
    },
    /// The queue of cells is full.
    #[error("the queue is full: {queued} cells are waiting")]
    QueueFull {
        /// How many cells wait.
        queued: usize,
    },
}

impl AdmissionError {
    /// Returns when to try again.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Rate(retry) | Self::Quota { retry, .. } => *retry,
            Self::QueueFull { .. } => QUEUE_RETRY,
        }
    }
}

/// Enforces per-key quotas and server capacity. Clones share one state.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    quota: Quota,
    capacity: Capacity,
    closed: AtomicBool,
    state: Mutex<State>,
    /// Permits to run a cell.
    cells: FairSemaphore,
    /// Permits to create a sandbox or an interpreter.
    creating: FairSemaphore,
}

#[derive(Debug, Default)]
struct State {
    queued: usize,
    sandboxes: usize,
    keys: HashMap<Tenant, Key>,
}

#[derive(Debug)]
struct Key {
    queued: usize,
    sandboxes: usize,
    requests: Bucket,
    upload: Bucket,
    output: Bucket,
    cpu: Bucket,
}

impl Key {
    fn new(quota: &Quota, now: Instant) -> Self {
        Self {
            queued: 0,
            sandboxes: 0,
            requests: Bucket::new(quota.request_burst, quota.requests_per_second, now),
            upload: Bucket::per_minute(quota.upload_bytes_per_minute, now),
            output: Bucket::per_minute(quota.output_bytes_per_minute, now),
            cpu: Bucket::per_minute(quota.cpu_seconds_per_minute, now),
        }
    }
}

/// What is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Running cells.
    pub running: usize,
    /// Queued cells.
    pub queued: usize,
    /// Live sandboxes.
    pub sandboxes: usize,
}

impl Admission {
    /// Creates an admission controller with no load.
    pub fn new(quota: Quota, capacity: Capacity) -> Self {
        let cells = FairSemaphore::new(PermitBounds {
            total: capacity.running,
            per_key: quota.running,
            reserved: capacity.reserved,
        });
        let creating = FairSemaphore::new(PermitBounds {
            total: capacity.creating,
            per_key: capacity.creating.div_ceil(2),
            reserved: capacity.creating.div_ceil(4),
        });
        let closed = false.into();
        let state = Mutex::default();
        Self(Arc::new(Shared { quota, capacity, closed, state, cells, creating }))
    }

    /// Returns the quota of each key.
    pub fn quota(&self) -> &Quota {
        &self.0.quota
    }

    /// Admits no new sandbox or execution from now on. Queued cells still run.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
    }

    /// Returns whether nothing new is admitted.
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    /// Returns what is in use: by everyone, or by one key.
    pub fn load(&self, tenant: Option<&Tenant>) -> Load {
        let (queued, sandboxes) = {
            let state = self.0.lock();
            match tenant {
                None => (state.queued, state.sandboxes),
                Some(tenant) => {
                    state.keys.get(tenant).map_or((0, 0), |key| (key.queued, key.sandboxes))
                }
            }
        };
        // Read last: a cell holds its permit before it leaves the queue, so that it is counted at least once.
        Load { running: self.0.cells.held(tenant), queued, sandboxes }
    }

    /// Returns whether nothing runs, is queued or is being created.
    pub(crate) fn is_idle(&self) -> bool {
        let load = self.load(None);
        load.running + load.queued + self.0.creating.held(None) == 0
    }

    /// Waits for a permit to create a sandbox or an interpreter.
    pub(crate) async fn creating(&self, tenant: &Tenant) -> Permit {
        self.0.creating.acquire(tenant).await
    }

    /// Counts a request of a key.
    pub fn request(&self, tenant: &Tenant) -> Result<(), AdmissionError> {
        let now = Instant::now();
        self.0.with_key(tenant, |key| key.requests.take(1.0, now).map_err(AdmissionError::Rate))
    }

    /// Counts uploaded bytes.
    pub fn upload(&self, tenant: &Tenant, bytes: u64) -> Result<(), AdmissionError> {
        let now = Instant::now();
        let most = self.0.quota.upload_bytes_per_minute;
        let what = "upload bytes per minute";
        self.0.with_key(tenant, |key| {
            let taken = key.upload.take(bytes as f64, now);
            taken.map_err(|retry| AdmissionError::Quota { what, most, retry })
        })
    }

    /// Charges a key for the output and the processor time of its code.
    pub fn charge(&self, tenant: &Tenant, output_bytes: u64, cpu: Duration) {
        let now = Instant::now();
        self.0.with_key(tenant, |key| {
            key.output.charge(output_bytes as f64, now);
            key.cpu.charge(cpu.as_secs_f64(), now);
        });
    }

    fn slot(&self, tenant: &Tenant, kind: SlotKind) -> QuotaSlot {
        QuotaSlot {
            admission: self.clone(),
            tenant: tenant.clone(),
            kind,
            key_released: false.into(),
        }
    }

    /// Takes a slot for a sandbox.
    pub fn sandbox(&self, tenant: &Tenant) -> Result<QuotaSlot, AdmissionError> {
        let shared = &self.0;
        let mut state = shared.lock();
        if state.sandboxes >= shared.capacity.sandboxes {
            let most = shared.capacity.sandboxes as u64;
            let what = "sandboxes on this server";
            return Err(AdmissionError::Quota { what, most, retry: SANDBOX_RETRY });
        }
        let key = shared.key(&mut state, tenant);
        if key.sandboxes >= shared.quota.sandboxes {
            let most = shared.quota.sandboxes as u64;
            let what = "sandboxes of one key";
            return Err(AdmissionError::Quota { what, most, retry: SANDBOX_RETRY });
        }
        key.sandboxes += 1;
        state.sandboxes += 1;
        Ok(self.slot(tenant, SlotKind::Sandbox))
    }

    /// Takes a slot in the queue of cells.
    pub fn queue(&self, tenant: &Tenant) -> Result<QueueSlot, AdmissionError> {
        let shared = &self.0;
        let now = Instant::now();
        let mut state = shared.lock();
        if state.queued >= shared.capacity.queued {
            return Err(AdmissionError::QueueFull { queued: state.queued });
        }
        let quota = &shared.quota;
        let key = shared.key(&mut state, tenant);
        if key.queued >= quota.queued {
            return Err(AdmissionError::QueueFull { queued: key.queued });
        }
        if quota.cpu_seconds_per_minute > 0 {
            let what = "processor seconds per minute";
            let most = quota.cpu_seconds_per_minute;
            key.cpu.take(0.0, now).map_err(|retry| AdmissionError::Quota { what, most, retry })?;
        }
        let what = "output bytes per minute";
        let most = quota.output_bytes_per_minute;
        key.output.take(0.0, now).map_err(|retry| AdmissionError::Quota { what, most, retry })?;
        key.queued += 1;
        state.queued += 1;
        Ok(QueueSlot(self.slot(tenant, SlotKind::Queue)))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters only: a panic while the lock is held leaves no broken invariant.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key<'a>(&self, state: &'a mut State, tenant: &Tenant) -> &'a mut Key {
        let make = || Key::new(&self.quota, Instant::now());
        state.keys.entry(tenant.clone()).or_insert_with(make)
    }

    fn with_key<T>(&self, tenant: &Tenant, act: impl FnOnce(&mut Key) -> T) -> T {
        let mut state = self.lock();
        act(self.key(&mut state, tenant))
    }
}

#[derive(Clone, Copy, Debug)]
enum SlotKind {
    Sandbox,
    Queue,
}

/// One unit of a quota, counted until it is dropped.
#[derive(Debug)]
pub struct QuotaSlot {
    admission: Admission,
    tenant: Tenant,
    kind: SlotKind,
    /// Whether the slot counts for the server only, not for the key.
    key_released: AtomicBool,
}

impl QuotaSlot {
    /// Stops counting for the key: its sandbox has ended, and only its resources are still being released.
    /// The slot counts for the server until it is dropped.
    pub(crate) fn release_key(&self) {
        let SlotKind::Sandbox = self.kind else { return };
        let mut state = self.admission.0.lock();
        if let Some(key) = state.keys.get_mut(&self.tenant)
            && !self.key_released.swap(true, Ordering::Relaxed)
        {
            key.sandboxes -= 1;
        }
    }
}

impl Drop for QuotaSlot {
    fn drop(&mut self) {
        let mut state = self.admission.0.lock();
        let state = &mut *state;
        let Some(key) = state.keys.get_mut(&self.tenant) else { return };
        match self.kind {
            SlotKind::Sandbox => {
                key.sandboxes -= usize::from(!*self.key_released.get_mut());
                state.sandboxes -= 1;
            }
            SlotKind::Queue => {
                key.queued -= 1;
                state.queued -= 1;
            }
        }
    }
}

/// A slot in the queue of cells.
#[derive(Debug)]
pub struct QueueSlot(QuotaSlot);

impl QueueSlot {
    /// Waits for a permit to run, then leaves the queue.
    pub(crate) async fn permit(self) -> Permit {
        self.0.admission.0.cells.acquire(&self.0.tenant).await
    }
}
