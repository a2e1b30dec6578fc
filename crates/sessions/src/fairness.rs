//! Fair use: what each key may have at once and per minute, and whose turn it is.
//!
//! Everything that runs code takes a place in a bounded queue, then a turn, and so does the making of a sandbox,
//! whose queue is bounded by how many sandboxes a key may have. Turns go round the keys, so a key with a thousand
//! cells waiting delays another's only cell by one cell and no more; and a few turns are kept for keys that have
//! none, so that it is not delayed at all by cells that run for hours.

#[cfg(test)]
mod tests;
mod turns;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use silica_store::Tenant;

pub(crate) use turns::Turn;
use turns::{Bounds, Turns};

/// What one key may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// Requests, on average.
    pub requests_per_second: f64,
    /// Requests at once after a pause.
    pub request_burst: f64,
    /// Living sandboxes.
    pub sandboxes: usize,
    /// Cells and commands in the foreground that run.
    pub running: usize,
    /// Cells that wait.
    pub queued: usize,
    /// Bytes uploaded in a minute.
    pub upload_bytes_per_minute: u64,
    /// Bytes printed and downloaded in a minute.
    pub output_bytes_per_minute: u64,
    /// Processor seconds in a minute; 0 for no limit.
    pub cpu_seconds_per_minute: u64,
}

/// What the whole server takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Cells that run.
    pub running: usize,
    /// Cells that run beside those, of keys that run nothing else.
    pub kept: usize,
    /// Cells that wait.
    pub queued: usize,
    /// Living sandboxes.
    pub sandboxes: usize,
    /// Sandboxes and interpreters that are made at a time; half of them by one key.
    pub making: usize,
}

/// Why something was not let in, and when to come back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many requests.
    #[error("this key sends more requests per second than it may")]
    Rate(Duration),
    /// Something the key has used up for now.
    #[error("this key has used all its {what} for now: {most}")]
    Quota {
        /// Of what.
        what: &'static str,
        /// How much it may have.
        most: u64,
        /// When there is more, if time brings it.
        retry: Duration,
    },
    /// The queue in front of execution.
    #[error("{queued} cells are waiting already")]
    QueueFull {
        /// How many.
        queued: usize,
    },
}

impl Refusal {
    /// When to come back.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Rate(retry) | Self::Quota { retry, .. } => *retry,
            Self::QueueFull { .. } => Duration::from_secs(1),
        }
    }
}

/// The doorkeeper.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    quota: Quota,
    capacity: Capacity,
    closed: AtomicBool,
    state: Mutex<State>,
    /// For cells to run.
    cells: Turns,
    /// For sandboxes to be made.
    making: Turns,
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

/// Something that refills with time. It may go below zero for what was only known afterwards.
#[derive(Debug)]
struct Bucket {
    level: f64,
    most: f64,
    per_second: f64,
    since: Instant,
}

impl Bucket {
    fn new(most: f64, per_second: f64, now: Instant) -> Self {
        Self { level: most, most, per_second, since: now }
    }

    fn per_minute(most: u64, now: Instant) -> Self {
        Self::new(most as f64, most as f64 / 60.0, now)
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        self.level = (self.level + passed * self.per_second).min(self.most);
        self.since = now;
    }

    /// Takes what is there or says how long until it is.
    fn take(&mut self, amount: f64, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        if self.level >= amount {
            self.level -= amount;
            return Ok(());
        }
        let seconds = (amount - self.level) / self.per_second.max(f64::MIN_POSITIVE);
        Err(Duration::from_secs_f64(seconds.min(3600.0)))
    }

    /// Takes what has been used already.
    fn charge(&mut self, amount: f64, now: Instant) {
        self.refill(now);
        self.level -= amount;
    }
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

/// How much of everything is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Cells that run.
    pub running: usize,
    /// Cells that wait.
    pub queued: usize,
    /// Living sandboxes.
    pub sandboxes: usize,
}

impl Admission {
    /// A doorkeeper of an empty house.
    pub fn new(quota: Quota, capacity: Capacity) -> Self {
        let Capacity { running, kept, making, .. } = capacity;
        let cells = Turns::new(Bounds { most: running, for_one: quota.running, kept });
        let for_one = making.div_ceil(2);
        let making = Turns::new(Bounds { most: making, for_one, kept: making.div_ceil(4) });
        let (closed, state) = (false.into(), Mutex::default());
        Self(Arc::new(Shared { quota, capacity, closed, state, cells, making }))
    }

    /// What each key may use.
    pub fn quota(&self) -> &Quota {
        &self.0.quota
    }

    /// Has nothing new let in from now on; what is in the queue still gets its turn.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
    }

    /// Whether nothing new is let in.
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    /// How much is in use: on the whole, and by one key.
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
        // Afterwards, since a cell that gets its turn runs before it leaves the queue: it is not missed.
        Load { running: self.0.cells.taken(tenant), queued, sandboxes }
    }

    /// Whether nothing runs, waits for its turn or is being made.
    pub(crate) fn is_idle(&self) -> bool {
        let load = self.load(None);
        load.running + load.queued + self.0.making.taken(None) == 0
    }

    /// Waits for the turn to make a sandbox or an interpreter.
    pub(crate) async fn making(&self, tenant: &Tenant) -> Turn {
        self.0.making.take(tenant).await
    }

    /// Counts a request.
    pub fn request(&self, tenant: &Tenant) -> Result<(), Refusal> {
        let now = Instant::now();
        self.0.with_key(tenant, |key| key.requests.take(1.0, now).map_err(Refusal::Rate))
    }

    /// Counts bytes that come in.
    pub fn upload(&self, tenant: &Tenant, bytes: u64) -> Result<(), Refusal> {
        let (now, most) = (Instant::now(), self.0.quota.upload_bytes_per_minute);
        let what = "upload bytes per minute";
        self.0.with_key(tenant, |key| {
            let taken = key.upload.take(bytes as f64, now);
            taken.map_err(|retry| Refusal::Quota { what, most, retry })
        })
    }

    /// Charges a key for what its code has printed and used.
    pub fn charge(&self, tenant: &Tenant, output_bytes: u64, cpu: Duration) {
        let now = Instant::now();
        self.0.with_key(tenant, |key| {
            key.output.charge(output_bytes as f64, now);
            key.cpu.charge(cpu.as_secs_f64(), now);
        });
    }

    fn place(&self, tenant: Tenant, kind: Kind) -> Place {
        Place { admission: self.clone(), tenant, kind, left: false.into() }
    }

    /// A place for a sandbox; given back when it is dropped.
    pub fn sandbox(&self, tenant: &Tenant) -> Result<Place, Refusal> {
        let shared = &self.0;
        let mut state = shared.lock();
        if state.sandboxes >= shared.capacity.sandboxes {
            let most = shared.capacity.sandboxes as u64;
            let what = "sandboxes on this server";
            return Err(Refusal::Quota { what, most, retry: Duration::from_secs(5) });
        }
        let key = shared.key(&mut state, tenant);
        if key.sandboxes >= shared.quota.sandboxes {
            let (what, most) = ("sandboxes", shared.quota.sandboxes as u64);
            return Err(Refusal::Quota { what, most, retry: Duration::from_secs(5) });
        }
        key.sandboxes += 1;
        state.sandboxes += 1;
        Ok(self.place(tenant.clone(), Kind::Sandbox))
    }

    /// A place in the queue.
    pub fn queue(&self, tenant: &Tenant) -> Result<Queued, Refusal> {
        let (shared, now) = (&self.0, Instant::now());
        let mut state = shared.lock();
        if state.queued >= shared.capacity.queued {
            return Err(Refusal::QueueFull { queued: state.queued });
        }
        let quota = &shared.quota;
        let key = shared.key(&mut state, tenant);
        if key.queued >= quota.queued {
            return Err(Refusal::QueueFull { queued: key.queued });
        }
        if quota.cpu_seconds_per_minute > 0 {
            let (what, most) = ("processor seconds per minute", quota.cpu_seconds_per_minute);
            key.cpu.take(0.0, now).map_err(|retry| Refusal::Quota { what, most, retry })?;
        }
        let (what, most) = ("output bytes per minute", quota.output_bytes_per_minute);
        key.output.take(0.0, now).map_err(|retry| Refusal::Quota { what, most, retry })?;
        key.queued += 1;
        state.queued += 1;
        Ok(Queued(self.place(tenant.clone(), Kind::Queued)))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters only; a panic elsewhere leaves nothing halfway.
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
enum Kind {
    Sandbox,
    Queued,
}

/// Something that is counted for as long as it is held.
#[derive(Debug)]
pub struct Place {
    admission: Admission,
    tenant: Tenant,
    kind: Kind,
    /// Whether it counts for the server alone any more.
    left: AtomicBool,
}

impl Place {
    /// Lets the key have another sandbox in the place of this one, which is being cleared away. The
    /// server has one more until then.
    pub(crate) fn give_back_to_key(&self) {
        let Kind::Sandbox = self.kind else { return };
        let mut state = self.admission.0.lock();
        if let Some(key) = state.keys.get_mut(&self.tenant)
            && !self.left.swap(true, Ordering::Relaxed)
        {
            key.sandboxes -= 1;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.admission.0.lock();
        let state = &mut *state;
        let Some(key) = state.keys.get_mut(&self.tenant) else { return };
        match self.kind {
            Kind::Sandbox => {
                key.sandboxes -= usize::from(!*self.left.get_mut());
                state.sandboxes -= 1;
            }
            Kind::Queued => (key.queued, state.queued) = (key.queued - 1, state.queued - 1),
        }
    }
}

/// A place in the queue.
#[derive(Debug)]
pub struct Queued(Place);

impl Queued {
    /// Waits for a turn.
    pub(crate) async fn turn(self) -> Turn {
        self.0.admission.0.cells.take(&self.0.tenant).await
    }
}
