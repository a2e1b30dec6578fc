//! One live sandbox of one owner: what is in it, how long it lives, how it ends.

mod cells;
mod commands;
mod files;
mod kernels;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use silica_domain::{Containment, Limits};
use silica_engine::{Created, Sandbox, Snapshot, TierError};
use silica_store::{SandboxId, Store, Tenant, Timestamp};
use tokio::sync::{Semaphore, watch};

use crate::admission::{Admission, Place};
use crate::cell::{Cell, CellPhase};
use crate::command::{Command, CommandPhase};
use crate::error::SessionError;
use crate::kernel::{KernelHandle, KernelInfo, KernelPhase};
use crate::review::Review;
use crate::sessions::Numbers;
use crate::usage::{Sample, Samples};
use crate::watch::{WATCHES_MAX, Watcher};

/// Kernels of one sandbox.
const KERNELS_MAX: usize = 16;

/// Cells and commands that have ended and are kept, of each; and the bytes of all together.
const KEPT_MAX: usize = 100;
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

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
    terms: Terms,
    sandbox: Sandbox,
    store: Store,
    admission: Admission,
    numbers: Arc<Numbers>,
    review: Review,
    created_at: Timestamp,
    cells_asked: AtomicU64,
    cells_run: AtomicU64,
    /// Whether files were changed from outside since they were last noted.
    files_touched: AtomicBool,
    snapshot: tokio::sync::Mutex<Option<Snapshot>>,
    watches: Arc<Semaphore>,
    ended: watch::Sender<Option<EndReason>>,
    /// Whether nobody finds it any more.
    gone: watch::Sender<bool>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    expires: Instant,
    expires_at: Timestamp,
    last_used: Instant,
    kernels: Vec<Arc<KernelHandle>>,
    next_kernel: u64,
    cells: VecDeque<Arc<Cell>>,
    /// What those of them cost that have ended.
    kept_bytes: usize,
    commands: VecDeque<Arc<Command>>,
    next_command: u64,
    /// No more than there are places for watches.
    watchers: Vec<Arc<Watcher>>,
    next_watcher: u64,
    samples: Samples,
    sampled: Instant,
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
            files_touched: snapshot.is_none().into(),
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

    fn lock(&self) -> MutexGuard<'_, Inner> {
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

    pub(crate) fn add_watcher(&self, make: impl FnOnce(String) -> Watcher) -> Arc<Watcher> {
        let mut inner = self.lock();
        let watcher = Arc::new(make(format!("w{}", inner.next_watcher)));
        inner.next_watcher += 1;
        inner.watchers.push(Arc::clone(&watcher));
        watcher
    }

    /// A watcher.
    pub fn watcher(&self, id: &str) -> Result<Arc<Watcher>, SessionError> {
        self.use_it()?;
        let found = self.lock().watchers.iter().find(|watcher| watcher.id == id).cloned();
        found.ok_or_else(|| SessionError::NoWatcher(id.to_owned()))
    }

    /// Ends a watcher.
    pub fn delete_watcher(&self, id: &str) -> Result<(), SessionError> {
        self.watcher(id)?;
        self.lock().watchers.retain(|watcher| watcher.id != id);
        Ok(())
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
    fn start_something(&self) -> Result<(), SessionError> {
        if self.admission.is_closed() {
            return Err(SessionError::ShuttingDown);
        }
        self.use_it()
    }

    /// Refuses if it has ended; otherwise notes that it is in use.
    fn use_it(&self) -> Result<(), SessionError> {
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

    /// What it uses now.
    pub fn usage(&self) -> Sample {
        let usage = self.sandbox.usage();
        let (disk_bytes, files) = self.sandbox.files().space();
        Sample {
            at: Timestamp::now(),
            cpu_ms: usage.cpu_us.map(|cpu| cpu / 1000),
            memory_bytes: usage.memory_bytes,
            memory_peak_bytes: usage.memory_peak_bytes,
            disk_bytes,
            files,
        }
    }

    /// What it used over the last hour.
    pub fn samples(&self) -> Vec<Sample> {
        self.lock().samples.all()
    }

    /// Takes a sample if the last is older than `pause`.
    pub(crate) fn sample(&self, pause: Duration) {
        if self.lock().sampled.elapsed() < pause {
            return;
        }
        let sample = self.usage();
        let mut inner = self.lock();
        inner.sampled = Instant::now();
        inner.samples.add(sample);
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
