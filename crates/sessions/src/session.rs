//! One live sandbox of one owner: what is in it, how long it lives, how it ends.

mod files;
mod life;
mod usage;
mod watcher;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use silica_domain::{Containment, Limits};
use silica_engine::{Created, Sandbox, Snapshot};
use silica_store::{SandboxId, Store, Tenant, Timestamp};
use tokio::sync::{Semaphore, watch};

use crate::approval::Review;
use crate::cell::Cell;
use crate::command::Command;
use crate::error::SessionError;
use crate::fairness::{Admission, Place};
use crate::kernel::{KernelHandle, KernelInfo};
use crate::statistics::Numbers;

pub use files::ReadOnlyFiles;
pub use life::{EndReason, LifeChange};
pub use usage::Sample;
use usage::Samples;
use watcher::WATCHES_MAX;
pub use watcher::{Watcher, Watching};

/// Kernels of one sandbox.
pub(crate) const KERNELS_MAX: usize = 16;

/// Cells and commands that have ended and are kept, of each; and the bytes of all together.
pub(crate) const KEPT_MAX: usize = 100;
pub(crate) const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a session is made with.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) id: SandboxId,
    pub(crate) tenant: Tenant,
    pub(crate) template: String,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) environment: BTreeMap<String, String>,
    /// Where kernels and commands start, if not in /workspace.
    pub(crate) directory: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) ttl: Duration,
    pub(crate) idle: Option<Duration>,
    pub(crate) max_cells: u64,
    pub(crate) timeout: Duration,
    pub(crate) timeout_max: Duration,
    /// Whether it is made for a single cell and recorded nowhere.
    pub(crate) single: bool,
    /// What it counts for, given back when it is gone.
    pub(crate) place: Place,
}

/// What is known of a session.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// Its id.
    pub id: SandboxId,
    /// What it started from.
    pub template: String,
    /// What its user says about it.
    pub metadata: BTreeMap<String, String>,
    /// What it may use.
    pub limits: Limits,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it will be ended.
    pub expires_at: Timestamp,
    /// After what time without use it is ended.
    pub idle: Option<Duration>,
    /// How many cells it may run.
    pub max_cells: u64,
    /// How many it has run.
    pub cells_run: u64,
    /// Its kernels.
    pub kernels: Vec<KernelInfo>,
    /// Why it has ended, if it has.
    pub ended: Option<EndReason>,
}

/// A live sandbox of one owner.
#[derive(Debug)]
pub struct Session {
    pub(crate) terms: Terms,
    pub(crate) sandbox: Sandbox,
    pub(crate) store: Store,
    pub(crate) admission: Admission,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) review: Review,
    pub(crate) created_at: Timestamp,
    pub(crate) cells_asked: AtomicU64,
    pub(crate) cells_run: AtomicU64,
    /// Whether files were changed from outside since the last snapshot.
    pub(crate) files_changed: Arc<AtomicBool>,
    pub(crate) snapshot: tokio::sync::Mutex<Option<Snapshot>>,
    pub(crate) watches: Arc<Semaphore>,
    pub(crate) ended: watch::Sender<Option<EndReason>>,
    /// Whether nobody finds it any more.
    pub(crate) gone: watch::Sender<bool>,
    pub(crate) inner: Mutex<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) expires: Instant,
    pub(crate) expires_at: Timestamp,
    pub(crate) last_used: Instant,
    pub(crate) kernels: Vec<Arc<KernelHandle>>,
    pub(crate) next_kernel: u64,
    pub(crate) cells: VecDeque<Arc<Cell>>,
    /// What those of them cost that have ended.
    pub(crate) kept_bytes: usize,
    pub(crate) commands: VecDeque<Arc<Command>>,
    pub(crate) next_command: u64,
    /// No more than there are places for watches.
    pub(crate) watchers: Vec<Arc<Watcher>>,
    pub(crate) next_watcher: u64,
    pub(crate) samples: Samples,
    pub(crate) sampled: Instant,
}

impl Session {
    /// Takes over a sandbox whose interpreter is ready.
    pub(crate) fn start(
        terms: Terms,
        created: Created,
        store: Store,
        admission: Admission,
        numbers: Arc<Numbers>,
        review: Review,
    ) -> Arc<Self> {
        let now = Instant::now();
        let Created { sandbox, kernel, snapshot } = created;
        let (created_at, ttl) = (Timestamp::now(), terms.ttl);
        let inner = Inner {
            expires: now + ttl,
            expires_at: created_at.after(ttl),
            last_used: now,
            kernels: Vec::new(),
            next_kernel: 1,
            cells: VecDeque::new(),
            kept_bytes: 0,
            commands: VecDeque::new(),
            next_command: 1,
            watchers: Vec::new(),
            next_watcher: 1,
            samples: Samples::default(),
            sampled: now,
        };
        let session = Arc::new(Self {
            terms,
            sandbox,
            store,
            admission,
            numbers,
            review,
            created_at,
            cells_asked: 0.into(),
            cells_run: 0.into(),
            files_changed: Arc::new(snapshot.is_none().into()),
            snapshot: tokio::sync::Mutex::new(snapshot),
            watches: Arc::new(Semaphore::new(WATCHES_MAX)),
            ended: watch::Sender::new(None),
            gone: watch::Sender::new(false),
            inner: Mutex::new(inner),
        });
        let setup = session.setup(None, &BTreeMap::new());
        session.add_kernel(kernel, setup);
        session
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Each change is one assignment; a panic elsewhere leaves nothing halfway.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its id.
    pub fn id(&self) -> &SandboxId {
        &self.terms.id
    }

    /// Whose it is.
    pub fn tenant(&self) -> &Tenant {
        &self.terms.tenant
    }

    /// What is really enforced.
    pub fn containment(&self) -> &Containment {
        self.sandbox.containment()
    }

    pub(crate) fn watches(&self) -> &Arc<Semaphore> {
        &self.watches
    }

    /// The most bytes its files may hold.
    pub fn disk_bytes(&self) -> u64 {
        self.terms.limits.disk_bytes
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn review(&self) -> &Review {
        &self.review
    }

    /// Whether it is made for a single cell, and nobody else finds it.
    pub fn is_single(&self) -> bool {
        self.terms.single
    }

    /// Refuses if nothing new is started here any more.
    pub(crate) fn start_something(&self) -> Result<(), SessionError> {
        if self.admission.is_closed() {
            return Err(SessionError::ShuttingDown);
        }
        self.use_it()
    }

    /// Refuses if it has ended; otherwise notes that it is in use.
    pub(crate) fn use_it(&self) -> Result<(), SessionError> {
        if let Some(reason) = *self.ended.borrow() {
            return Err(SessionError::Ended { id: self.id().to_string(), reason });
        }
        self.lock().last_used = Instant::now();
        Ok(())
    }

    /// What is known of it.
    pub fn info(&self) -> SessionInfo {
        let inner = self.lock();
        SessionInfo {
            id: self.terms.id.clone(),
            template: self.terms.template.clone(),
            metadata: self.terms.metadata.clone(),
            limits: self.terms.limits.clone(),
            created_at: self.created_at,
            expires_at: inner.expires_at,
            idle: self.terms.idle,
            max_cells: self.terms.max_cells,
            cells_run: self.cells_run.load(Ordering::Relaxed),
            kernels: inner.kernels.iter().map(|kernel| kernel.info()).collect(),
            ended: *self.ended.borrow(),
        }
    }
}
