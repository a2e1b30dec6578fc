//! Fair use: enforces the quota of each key and the capacity of the server.
//!
//! Everything that runs code takes a slot in a bounded queue, then waits for a permit. Creating a sandbox needs a
//! permit too; its queue is bounded by the number of sandboxes a key may have. Permits are granted round robin
//! over the keys, so that a thousand queued cells of one key delay the only cell of another key by one cell. A few
//! permits are reserved for keys that hold none, so that cells which run for hours do not delay it either.

mod bucket;
mod budget;
mod semaphore;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use silica_engine::CpuShare;
use silica_store::Tenant;

use bucket::Bucket;
pub(crate) use budget::BudgetHolder;
use budget::Ledger;
pub use budget::{Budget, Reservation, Resource};
pub use semaphore::Permit;
use semaphore::{FairSemaphore, PermitBounds};

/// When to try again if there are too many sandboxes.
const SANDBOX_RETRY: Duration = Duration::from_secs(5);

/// When to try again if the queue is full.
const QUEUE_RETRY: Duration = Duration::from_secs(1);

/// How long a transfer waits for others of its key to end.
const TRANSFER_PATIENCE: Duration = Duration::from_secs(30);

/// How long a file call or a search waits for others of its key to end.
const WORK_PATIENCE: Duration = Duration::from_secs(30);

/// File calls at a time: each needs a thread of the runtime's pool for blocking work, which has 512.
const FILE_CALLS: PermitBounds = PermitBounds { total: 96, per_key: 8, reserved: 32 };

/// Searches in the audit log at a time. The store serves four reads at a time, so one is always left for short ones.
const SEARCHES: PermitBounds = PermitBounds { total: 2, per_key: 1, reserved: 1 };

/// The longest time for which a request above the rate of its key is delayed rather than refused. A client that waits
/// for each response is only slowed down.
const RATE_PATIENCE: Duration = Duration::from_millis(500);

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
    /// Bytes of records in the audit log and of its sandboxes in a minute.
    pub audit_bytes_per_minute: u64,
    /// Processor seconds in a minute; 0 for no limit.
    pub cpu_seconds_per_minute: u64,
    /// What it may hold at a time.
    pub budget: Budget,
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
    /// What all keys together may hold at a time.
    pub budget: Budget,
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
    /// Permits to transfer a file, an archive or a long response.
    transfers: FairSemaphore,
    /// Permits to work on files on a thread that may block.
    file_calls: FairSemaphore,
    /// Permits to search in the audit log.
    searches: FairSemaphore,
    ledger: Ledger,
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
    audit: Bucket,
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
            audit: Bucket::per_minute(quota.audit_bytes_per_minute, now),
            cpu: Bucket::per_minute(quota.cpu_seconds_per_minute, now),
        }
    }
}

impl Key {
    /// Takes bytes of records, or refuses.
    fn take_record(
        &mut self,
        bytes: u64,
        quota: &Quota,
        now: Instant,
    ) -> Result<(), AdmissionError> {
        let what = "bytes of audit records per minute";
        let most = quota.audit_bytes_per_minute;
        let taken = self.audit.take(bytes as f64, now);
        taken.map_err(|retry| AdmissionError::Quota { what, most, retry })
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
        let count = |most: u64| usize::try_from(most).unwrap_or(usize::MAX);
        let transfers = FairSemaphore::new(PermitBounds {
            total: count(capacity.budget.transfers),
            per_key: count(quota.budget.transfers),
            reserved: count(capacity.budget.transfers).div_ceil(4),
        });
        let ledger = Ledger::new(quota.budget, capacity.budget);
        let closed = false.into();
        let state = Mutex::default();
        Self(Arc::new(Shared {
            quota,
            capacity,
            closed,
            state,
            cells,
            creating,
            transfers,
            file_calls: FairSemaphore::new(FILE_CALLS),
            searches: FairSemaphore::new(SEARCHES),
            ledger,
        }))
    }

    /// Returns the capacity of the server.
    pub fn capacity(&self) -> &Capacity {
        &self.0.capacity
    }

    /// Returns an empty hold on a budget of a key.
    pub fn hold(&self, tenant: &Tenant, resource: Resource) -> Reservation {
        self.0.ledger.hold(tenant, resource)
    }

    /// Returns how much of a resource is held: by everyone, or by one key.
    pub fn held(&self, tenant: Option<&Tenant>, resource: Resource) -> u64 {
        match resource {
            Resource::Transfers => self.0.transfers.held(tenant) as u64,
            Resource::AuditBytes => self.0.recorded(tenant),
            Resource::InFlightBytes
            | Resource::KeptBytes
            | Resource::Connections
            | Resource::CpuWeight => self.0.ledger.held(tenant, resource),
        }
    }

    /// Returns the most of a resource that may be held: by everyone, or by one key. `None` if there is no bound, because
    /// that of each key is enough.
    pub fn most(&self, tenant: Option<&Tenant>, resource: Resource) -> Option<u64> {
        let Shared { quota, capacity, .. } = &*self.0;
        match (resource, tenant) {
            (Resource::AuditBytes, Some(_)) => Some(quota.audit_bytes_per_minute),
            (Resource::CpuWeight, Some(_)) => Some(u64::from(CpuShare::WEIGHT_MAX)),
            (Resource::AuditBytes | Resource::CpuWeight, None) => None,
            (resource, Some(_)) => Some(quota.budget.of(resource)),
            (resource, None) => Some(capacity.budget.of(resource)),
        }
    }

    /// Returns how often a part of a budget was refused since the start.
    pub fn refused(&self, resource: Resource) -> u64 {
        self.0.ledger.refused(resource)
    }

    /// Counts the refusal of one more of a key's own budget, and returns it.
    pub(crate) fn refuse(&self, resource: Resource) -> AdmissionError {
        self.0.ledger.refuse(resource)
    }

    /// Counts a refusal of a part of a budget.
    pub(crate) fn note_refusal(&self, resource: Resource) {
        self.0.ledger.note_refusal(resource);
    }

    /// Returns the key that holds the most of a resource.
    pub(crate) fn largest_holder(&self, resource: Resource) -> Option<Tenant> {
        self.0.ledger.largest(resource)
    }

    /// Waits for a permit to transfer a file, an archive or a long response.
    pub async fn transfer(&self, tenant: &Tenant) -> Result<Permit, AdmissionError> {
        let permit = self.0.transfers.acquire(tenant);
        tokio::time::timeout(TRANSFER_PATIENCE, permit)
            .await
            .map_err(|_| self.0.ledger.refuse(Resource::Transfers))
    }

    /// Waits for a permit to work on files on a thread that may block.
    pub async fn file_call(&self, tenant: &Tenant) -> Result<Permit, AdmissionError> {
        let what = "file calls of one key at a time";
        patiently(self.0.file_calls.acquire(tenant), what, FILE_CALLS.per_key).await
    }

    /// Waits for a permit to search in the audit log.
    pub async fn search(&self, tenant: &Tenant) -> Result<Permit, AdmissionError> {
        let what = "searches of one key at a time";
        patiently(self.0.searches.acquire(tenant), what, SEARCHES.per_key).await
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

    /// Counts a request of a key. One that comes a little too early is delayed.
    pub async fn request(&self, tenant: &Tenant) -> Result<(), AdmissionError> {
        let now = Instant::now();
        let taken = self.0.with_key(tenant, |key| key.requests.take_soon(1.0, RATE_PATIENCE, now));
        match taken {
            Ok(Duration::ZERO) => Ok(()),
            Ok(delay) => {
                tokio::time::sleep(delay).await;
                Ok(())
            }
            Err(retry) => Err(AdmissionError::Rate(retry)),
        }
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

    /// Counts bytes that are about to be recorded for a key. What must be recorded in any case is counted by
    /// [`Admission::charge_record`].
    pub fn record(&self, tenant: &Tenant, bytes: u64) -> Result<(), AdmissionError> {
        let now = Instant::now();
        let quota = &self.0.quota;
        let taken = self.0.with_key(tenant, |key| key.take_record(bytes, quota, now));
        self.note_unrecorded(taken)
    }

    /// Counts a refusal of audit records.
    fn note_unrecorded<T>(&self, taken: Result<T, AdmissionError>) -> Result<T, AdmissionError> {
        taken.inspect_err(|_| self.note_refusal(Resource::AuditBytes))
    }

    /// Charges a key for bytes that were recorded. If they are more than its quota, its next executions are refused.
    pub fn charge_record(&self, tenant: &Tenant, bytes: u64) {
        let now = Instant::now();
        self.0.with_key(tenant, |key| key.audit.charge(bytes as f64, now));
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
        self.note_unrecorded(key.take_record(0, &shared.quota, Instant::now()))?;
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
        self.note_unrecorded(key.take_record(0, quota, now))?;
        key.queued += 1;
        state.queued += 1;
        Ok(QueueSlot(self.slot(tenant, SlotKind::Queue)))
    }
}

/// Waits for a permit, for at most [`WORK_PATIENCE`].
async fn patiently(
    permit: impl Future<Output = Permit>,
    what: &'static str,
    most: usize,
) -> Result<Permit, AdmissionError> {
    let waited = tokio::time::timeout(WORK_PATIENCE, permit).await;
    waited.map_err(|_| AdmissionError::Quota { what, most: most as u64, retry: QUEUE_RETRY })
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters only: a panic while the lock is held leaves no broken invariant.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many bytes of audit records count now: those of the last minute, by and by fewer.
    fn recorded(&self, tenant: Option<&Tenant>) -> u64 {
        let now = Instant::now();
        let mut state = self.lock();
        let of_key = |key: &mut Key| key.audit.taken(now) as u64;
        match tenant {
            Some(tenant) => state.keys.get_mut(tenant).map_or(0, of_key),
            None => state.keys.values_mut().map(of_key).sum(),
        }
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
