//! A live sandbox of one owner: what it was made with, what is in it, whether it can be used.

mod activity;
mod files;
mod inside;
mod life;
mod ports;
mod usage;
mod watcher;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use silica_domain::{Containment, Limits};
use silica_engine::{Created, Sandbox};
use silica_store::{SandboxId, Tenant, Timestamp};
use tokio::sync::{Semaphore, watch};

use crate::cell::{Cell, CellPhase};
use crate::command::Command;
use crate::create::with_network;
use crate::error::SessionError;
use crate::fairness::{QuotaSlot, Resource};
use crate::kept::{HasOutput, KeptBytes};
use crate::kernel::{KernelHandle, KernelInfo};
use crate::marks::Marks;
use crate::network::{NetworkTerms, SessionNetwork};
use crate::ports::Exposure;
use crate::sessions::Services;

use activity::Activity;
pub(crate) use activity::{Executing, ExecutingSessions};
use files::KeptSnapshot;
pub use files::{FileChange, ReadOnlyFiles};
pub use inside::InsideFile;
pub use life::{EndReason, LifeChange};
use ports::Ports;
pub use ports::{PortConnection, PortUse};
use usage::Samples;
pub use usage::UsageSample;
use watcher::WATCHES_MAX;
pub use watcher::{FileWatch, FileWatcher};

/// The most kernels of one sandbox.
pub(crate) const KERNELS_MAX: usize = 16;

/// The most cells, and the most commands, that are kept after their end.
pub(crate) const KEPT_MAX: usize = 100;

/// What a sandbox was made with. A copy of the sandbox would be made with a clone of this.
#[derive(Clone, Debug)]
pub(crate) struct SandboxTerms {
    pub(crate) template: String,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) environment: BTreeMap<String, String>,
    /// The directory in which kernels and commands start; `None` is /workspace.
    pub(crate) directory: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) ttl: Duration,
    pub(crate) idle: Option<Duration>,
    pub(crate) max_cells: u64,
    pub(crate) timeout: Duration,
    pub(crate) timeout_max: Duration,
    pub(crate) exposure: Exposure,
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Clients find it by its id, and its record outlives it.
    Session,
    /// It runs one cell of one request. Clients find it only if that waits for a person, and only the
    /// cell is recorded.
    SingleRun,
}

/// What a session is started with.
pub(crate) struct NewSession {
    pub(crate) id: SandboxId,
    pub(crate) tenant: Tenant,
    pub(crate) purpose: Purpose,
    pub(crate) terms: SandboxTerms,
    pub(crate) slot: QuotaSlot,
    /// The sandbox, with a first kernel that is ready.
    pub(crate) created: Created,
    pub(crate) network: Option<Arc<NetworkTerms>>,
    /// How many cells that kernel has run already, in the sandbox that this one is a copy of.
    pub(crate) cells_begun: u64,
}

/// What clients see of a session.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// The id of the sandbox.
    pub id: SandboxId,
    /// The name of the template.
    pub template: String,
    /// Pairs that the owner attached.
    pub metadata: BTreeMap<String, String>,
    /// The limits of the sandbox.
    pub limits: Limits,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// After what time without use it is ended; `None` for never.
    pub idle: Option<Duration>,
    /// How many cells it may run.
    pub max_cells: u64,
    /// How many cells it has run.
    pub cells_run: u64,
    /// Its kernels.
    pub kernels: Vec<KernelInfo>,
    /// Why it has ended; `None` while it lives.
    pub ended: Option<EndReason>,
}

/// A live sandbox of one owner.
#[derive(Debug)]
pub struct Session {
    id: SandboxId,
    tenant: Tenant,
    pub(crate) purpose: Purpose,
    pub(crate) terms: SandboxTerms,
    slot: QuotaSlot,
    pub(crate) sandbox: Sandbox,
    pub(crate) services: Services,
    created_at: Timestamp,
    activity: Activity,
    /// Cells that were submitted, whether they ran or not; numbers the cells.
    pub(crate) cells_submitted: AtomicU64,
    pub(crate) cells_run: AtomicU64,
    /// Whether files were changed from outside since the last snapshot.
    files_changed: Arc<AtomicBool>,
    snapshot: tokio::sync::Mutex<Option<KeptSnapshot>>,
    watches: Arc<Semaphore>,
    pub(crate) network: SessionNetwork,
    ports: Ports,
    ended: watch::Sender<Option<EndReason>>,
    /// Whether the registry of live sessions has removed it.
    removed: watch::Sender<bool>,
    items: Mutex<Items>,
    pub(crate) marks: Marks,
}

/// What is in a sandbox, and its clocks.
#[derive(Debug)]
pub(crate) struct Items {
    expires: Instant,
    expires_at: Timestamp,
    pub(crate) last_used: Instant,
    pub(crate) kernels: Vec<Arc<KernelHandle>>,
    pub(crate) next_kernel: u64,
    pub(crate) cells: VecDeque<Arc<Cell>>,
    pub(crate) commands: VecDeque<Arc<Command>>,
    pub(crate) next_command: u64,
    /// At most `WATCHES_MAX`, since each holds a permit of the semaphore `watches`.
    watchers: Vec<Arc<FileWatcher>>,
    next_watcher: u64,
    samples: Samples,
    sampled: Instant,
}

impl Items {
    fn new(now: Instant, ttl: Duration, expires_at: Timestamp) -> Self {
        Self {
            expires: now + ttl,
            expires_at,
            last_used: now,
            kernels: Vec::new(),
            next_kernel: 1,
            cells: VecDeque::new(),
            commands: VecDeque::new(),
            next_command: 1,
            watchers: Vec::new(),
            next_watcher: 1,
            samples: Samples::default(),
            sampled: now,
        }
    }
}

impl Session {
    /// Takes over a sandbox.
    pub(crate) fn start(new: NewSession, services: Services) -> Arc<Self> {
        let NewSession { id, tenant, purpose, terms, slot, created, network, cells_begun } = new;
        let Created { sandbox, kernel, snapshot } = created;
        let created_at = Timestamp::now();
        let activity = Activity::new(services.admission.hold(&tenant, Resource::CpuWeight));
        let kept = services.kept.begin(&tenant);
        let snapshot = snapshot.and_then(|snapshot| KeptSnapshot::new(snapshot, kept));
        let items = Items::new(Instant::now(), terms.ttl, created_at.after(terms.ttl));
        let floor = services.networks.options.floor.clone();
        let network = SessionNetwork::new(network, floor);
        let exposure = terms.exposure.clone();
        let session = Arc::new(Self {
            id,
            tenant,
            purpose,
            terms,
            slot,
            sandbox,
            services,
            created_at,
            activity,
            cells_submitted: 0.into(),
            cells_run: 0.into(),
            files_changed: Arc::new(snapshot.is_none().into()),
            snapshot: tokio::sync::Mutex::new(snapshot),
            watches: Arc::new(Semaphore::new(WATCHES_MAX)),
            network,
            ports: Ports::new(exposure),
            ended: watch::Sender::new(None),
            removed: watch::Sender::new(false),
            items: Mutex::new(items),
            marks: Marks::default(),
        });
        let setup = session.setup(None, &BTreeMap::new());
        session.add_kernel(kernel, setup, cells_begun);
        session
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Items> {
        // Each change is one assignment: a panic while the lock is held leaves no broken invariant.
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the id of the sandbox.
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// Returns the owner.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Returns what the kernel of the host enforces for this sandbox.
    pub fn containment(&self) -> Containment {
        self.sandbox.containment()
    }

    /// Returns the longest timeout of a cell.
    pub fn timeout_max(&self) -> Duration {
        self.terms.timeout_max
    }

    /// Returns the most bytes its files may hold.
    pub fn disk_bytes(&self) -> u64 {
        self.terms.limits.disk_bytes
    }

    /// Notes that the session is used. Fails if it has ended, or if the server is shutting down.
    pub(crate) fn ensure_open(&self) -> Result<(), SessionError> {
        if self.services.admission.is_closed() {
            return Err(SessionError::ShuttingDown);
        }
        self.touch()
    }

    /// Notes that the session is used. Fails if it has ended.
    pub(crate) fn touch(&self) -> Result<(), SessionError> {
        if let Some(reason) = self.end_reason() {
            return Err(SessionError::Ended { id: self.id.to_string(), reason });
        }
        self.lock().last_used = Instant::now();
        Ok(())
    }

    /// Returns the variables of processes in it.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        with_network(self.network.terms().as_deref(), &self.terms.environment)
    }

    /// Returns the cells that run, by id.
    pub(crate) fn running_cells(&self) -> Vec<String> {
        let items = self.lock();
        let running = items.cells.iter().filter(|cell| matches!(cell.phase(), CellPhase::Running));
        running.map(|cell| cell.id.to_string()).collect()
    }

    /// Begins to count what a cell or command keeps for clients.
    pub(crate) fn begin_keeping(&self) -> KeptBytes {
        self.services.kept.begin(&self.tenant)
    }

    /// Notes that a cell or command has ended: its output may be dropped when the budget of its key is used up.
    pub(crate) fn may_drop_output(&self, ended: Weak<dyn HasOutput>) {
        // The output of a single run goes with its response.
        if self.purpose == Purpose::Session {
            self.services.kept.ended(&self.tenant, ended);
        }
    }

    /// Returns what clients see of it.
    pub fn info(&self) -> SessionInfo {
        let items = self.lock();
        SessionInfo {
            id: self.id.clone(),
            template: self.terms.template.clone(),
            metadata: self.terms.metadata.clone(),
            limits: self.terms.limits.clone(),
            created_at: self.created_at,
            expires_at: items.expires_at,
            idle: self.terms.idle,
            max_cells: self.terms.max_cells,
            cells_run: self.cells_run.load(Ordering::Relaxed),
            kernels: items.kernels.iter().map(|kernel| kernel.info()).collect(),
            ended: self.end_reason(),
        }
    }
}
