//! One live sandbox of one owner: what is in it, how long it lives, how it ends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use silica_domain::{Containment, Limits};
use silica_engine::{
    CODE_BYTES_MAX, Changes, CommandSpec, FileError, FileKind, Files, GuestPath, Kernel, Report,
    Sandbox, Setup, Snapshot, Stdin,
};
use silica_store::audit::Activity;
use silica_store::{SandboxId, Store, Tenant, Timestamp};
use tokio::sync::watch;

use crate::admission::{Admission, Place};
use crate::audit;
use crate::cell::{Cell, CellPhase, CellRequest};
use crate::command::{Command, CommandPhase, CommandRequest, What};
use crate::error::SessionError;
use crate::kernel::{Job, KernelHandle, KernelInfo, KernelPhase, give_up};
use crate::sessions::check_environment;
use crate::usage::{Sample, Samples};

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

/// What a session is made with.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) id: SandboxId,
    pub(crate) tenant: Tenant,
    pub(crate) template: String,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) limits: Limits,
    pub(crate) ttl: Duration,
    pub(crate) idle: Option<Duration>,
    pub(crate) max_cells: u64,
    pub(crate) timeout: Duration,
    pub(crate) timeout_max: Duration,
    /// Whether it is made for a single cell and recorded nowhere.
    pub(crate) single: bool,
    /// What it counts for, given back when it is gone.
    pub(crate) _place: Place,
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
    created_at: Timestamp,
    cells_asked: AtomicU64,
    cells_run: AtomicU64,
    /// Whether files were changed from outside since they were last noted.
    files_touched: AtomicBool,
    snapshot: tokio::sync::Mutex<Option<Snapshot>>,
    ended: watch::Sender<Option<EndReason>>,
    /// Whether nothing of it is left.
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
    commands: VecDeque<Arc<Command>>,
    next_command: u64,
    samples: Samples,
    sampled: Instant,
}

impl Session {
    /// Takes over a sandbox whose interpreter is ready.
    pub(crate) fn start(
        terms: Terms,
        mut sandbox: Sandbox,
        store: Store,
        admission: Admission,
    ) -> Arc<Self> {
        let now = Instant::now();
        let kernel = sandbox.take_kernel();
        let (created_at, ttl) = (Timestamp::now(), terms.ttl);
        let inner = Inner {
            expires: now + ttl,
            expires_at: created_at.after(ttl),
            last_used: now,
            kernels: Vec::new(),
            next_kernel: 1,
            cells: VecDeque::new(),
            commands: VecDeque::new(),
            next_command: 1,
            samples: Samples::default(),
            sampled: now,
        };
        let session = Arc::new(Self {
            terms,
            sandbox,
            store,
            admission,
            created_at,
            cells_asked: 0.into(),
            cells_run: 0.into(),
            files_touched: true.into(),
            snapshot: tokio::sync::Mutex::default(),
            ended: watch::Sender::new(None),
            gone: watch::Sender::new(false),
            inner: Mutex::new(inner),
        });
        if let Some(kernel) = kernel {
            let setup = session.setup(None, &BTreeMap::new());
            session.add_kernel(kernel, setup);
        }
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

    /// Its files, for reading. Whoever changes them says so with [`Self::touch_files`].
    pub fn files(&self) -> Result<&Arc<Files>, SessionError> {
        self.use_it()?;
        Ok(self.sandbox.files())
    }

    /// Files were changed from outside: that is not the next cell's doing.
    pub fn touch_files(&self) {
        self.files_touched.store(true, Ordering::Release);
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

    pub(crate) fn is_single(&self) -> bool {
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

    /// Has it live at least this long from now.
    pub async fn extend(&self, ttl: Duration) -> Result<Timestamp, SessionError> {
        self.use_it()?;
        let expires_at = {
            let mut inner = self.lock();
            let expires = Instant::now() + ttl;
            if expires > inner.expires {
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
        let busy = inner.kernels.iter().any(|kernel| kernel.info().phase == KernelPhase::Busy)
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

    // Kernels.

    fn setup(&self, directory: Option<&str>, more: &BTreeMap<String, String>) -> Setup {
        let mut environment = self.terms.environment.clone();
        environment.extend(more.clone());
        Setup { environment, arguments: Vec::new(), directory: directory.map(str::to_owned) }
    }

    fn add_kernel(self: &Arc<Self>, kernel: Kernel, setup: Setup) -> Arc<KernelHandle> {
        let id = {
            let mut inner = self.lock();
            inner.next_kernel += 1;
            format!("k{}", inner.next_kernel - 1)
        };
        let handle = KernelHandle::start(self, id, kernel, setup);
        self.lock().kernels.push(Arc::clone(&handle));
        handle
    }

    /// Starts an interpreter and waits until it is ready.
    pub(crate) async fn start_kernel(&self, setup: &Setup) -> Result<Kernel, SessionError> {
        let mut kernel = self.sandbox.start_kernel()?;
        kernel.ready().await?;
        kernel.set_up(setup).await?;
        Ok(kernel)
    }

    /// Adds a kernel.
    pub async fn create_kernel(
        self: &Arc<Self>,
        directory: Option<&str>,
        environment: &BTreeMap<String, String>,
    ) -> Result<KernelInfo, SessionError> {
        self.use_it()?;
        if self.kernels().len() >= KERNELS_MAX {
            return Err(SessionError::TooManyKernels(KERNELS_MAX));
        }
        check_environment(environment)?;
        if let Some(directory) = directory {
            self.check_directory(directory).await?;
        }
        let setup = self.setup(directory, environment);
        let kernel = self.start_kernel(&setup).await?;
        self.use_it()?;
        Ok(self.add_kernel(kernel, setup).info())
    }

    /// An interpreter cannot say that there is no such directory, so this is found out before.
    async fn check_directory(&self, directory: &str) -> Result<(), SessionError> {
        let (path, files) = (GuestPath::parse(directory)?, Arc::clone(self.sandbox.files()));
        let looked = tokio::task::spawn_blocking(move || match files.stat(&path)?.kind {
            FileKind::Directory => Ok(()),
            _ => Err(FileError::NotDirectory(path.to_string())),
        });
        Ok(looked.await.unwrap_or_else(|_| Err(FileError::Missing(directory.to_owned())))?)
    }

    /// Its kernels.
    pub fn kernels(&self) -> Vec<KernelInfo> {
        self.lock().kernels.iter().map(|kernel| kernel.info()).collect()
    }

    fn kernel(&self, id: Option<&str>) -> Result<Arc<KernelHandle>, SessionError> {
        let inner = self.lock();
        let found = match id {
            None => inner.kernels.first(),
            Some(id) => inner.kernels.iter().find(|kernel| kernel.id() == id),
        };
        let missing = || SessionError::NoKernel(id.unwrap_or("k1").to_owned());
        found.cloned().ok_or_else(missing)
    }

    /// What is known of one kernel.
    pub fn kernel_info(&self, id: &str) -> Result<KernelInfo, SessionError> {
        Ok(self.kernel(Some(id))?.info())
    }

    /// Interrupts whatever a kernel runs.
    pub fn interrupt_kernel(&self, id: &str) -> Result<(), SessionError> {
        self.use_it()?;
        self.kernel(Some(id))?.interrupt();
        Ok(())
    }

    /// Has a new interpreter take the place of a kernel's.
    pub fn restart_kernel(&self, id: &str) -> Result<(), SessionError> {
        self.use_it()?;
        self.kernel(Some(id))?.restart();
        Ok(())
    }

    /// Ends a kernel.
    pub fn delete_kernel(&self, id: &str) -> Result<(), SessionError> {
        self.use_it()?;
        let kernel = self.kernel(Some(id))?;
        kernel.close();
        self.lock().kernels.retain(|other| other.id() != id);
        Ok(())
    }

    // Cells.

    /// Queues a cell. Whoever asked may go away at any moment; the cell then runs all the same.
    pub async fn submit(self: &Arc<Self>, request: CellRequest) -> Result<Arc<Cell>, SessionError> {
        let session = Arc::clone(self);
        let submitted = tokio::spawn(async move { session.queue_cell(request).await }).await;
        submitted.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn queue_cell(self: Arc<Self>, request: CellRequest) -> Result<Arc<Cell>, SessionError> {
        self.start_something()?;
        let kernel = self.kernel(request.kernel.as_deref())?;
        if request.code.len() > CODE_BYTES_MAX {
            let length = request.code.len();
            let words =
                format!("the code is {length} bytes long; at most {CODE_BYTES_MAX} are run");
            return Err(SessionError::Bad(words));
        }
        let timeout = self.timeout(request.timeout)?;
        let queued = self.admission.queue(self.tenant())?;
        let number = self.cells_asked.fetch_add(1, Ordering::Relaxed) + 1;
        if number > self.terms.max_cells {
            let reason = EndReason::MaxCells;
            return Err(SessionError::Ended { id: self.id().to_string(), reason });
        }
        let limits = Limits { wall: timeout, ..self.terms.limits.clone() };
        let activity = if self.terms.single { Activity::Run } else { Activity::Cell };
        let begun =
            audit::begin(&self.store, self.tenant(), self.id(), activity, &request.code, &limits);
        let ticket = begun.await?;
        let (cell, controls) = Cell::new(
            format!("c{number}"),
            kernel.id().to_owned(),
            timeout,
            self.terms.timeout_max,
        );
        self.lock().cells.push_back(Arc::clone(&cell));
        let code = request.code;
        let job = Job { cell: Arc::clone(&cell), code, limits, controls, queued, ticket };
        if let Err(job) = kernel.submit(job) {
            // Its beginning is on record, so its end must be.
            give_up(&self, *job);
            return Err(SessionError::NoKernel(kernel.id().to_owned()));
        }
        Ok(cell)
    }

    fn timeout(&self, asked: Option<Duration>) -> Result<Duration, SessionError> {
        let (timeout, most) = (asked.unwrap_or(self.terms.timeout), self.terms.timeout_max);
        if timeout.is_zero() || timeout > most {
            let words = format!(
                "a timeout of {} seconds cannot be had; at most {} are allowed here",
                timeout.as_secs_f64(),
                most.as_secs_f64()
            );
            return Err(SessionError::Bad(words));
        }
        Ok(timeout)
    }

    /// A cell that runs or is kept.
    pub fn cell(&self, id: &str) -> Result<Arc<Cell>, SessionError> {
        let found = self.lock().cells.iter().find(|cell| cell.id == id).cloned();
        found.ok_or_else(|| SessionError::NoCell(id.to_owned()))
    }

    /// The cells that run or are kept, oldest first.
    pub fn cells(&self) -> Vec<Arc<Cell>> {
        self.lock().cells.iter().cloned().collect()
    }

    pub(crate) fn cell_ended(&self) {
        self.cells_run.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.lock();
        inner.last_used = Instant::now();
        let done = |cell: &Arc<Cell>| matches!(cell.phase(), CellPhase::Done(_));
        let mut bytes: usize = inner.cells.iter().map(|cell| cell.kept_bytes()).sum();
        while inner.cells.len() > KEPT_MAX || bytes > KEPT_BYTES_MAX {
            // The newest stays, however large: somebody is about to read it.
            let Some(oldest) = inner.cells.iter().position(done) else { break };
            if oldest + 1 == inner.cells.len() {
                break;
            }
            bytes -= inner.cells.remove(oldest).map_or(0, |cell| cell.kept_bytes());
        }
    }

    pub(crate) fn charge(&self, report: &Report) {
        let output = report.stdout.total() + report.stderr.total();
        self.admission.charge(self.tenant(), output, report.cpu.unwrap_or_default());
    }

    // Files.

    /// Notes how the files stand before a cell, if anybody else has changed them.
    pub(crate) async fn note_files(&self) {
        if !self.files_touched.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut snapshot = self.snapshot.lock().await;
        let files = Arc::clone(self.sandbox.files());
        let taken = tokio::task::spawn_blocking(move || files.snapshot()).await;
        *snapshot = taken.ok().and_then(Result::ok);
    }

    /// Which files changed since that was last asked.
    pub(crate) async fn changed_files(&self) -> Changes {
        let mut snapshot = self.snapshot.lock().await;
        let Some(mut before) = snapshot.take() else { return Changes::default() };
        let files = Arc::clone(self.sandbox.files());
        let compared = tokio::task::spawn_blocking(move || {
            let changes = files.changes(&mut before);
            (changes, before)
        });
        match compared.await {
            Ok((changes, after)) => {
                *snapshot = Some(after);
                changes.unwrap_or_default()
            }
            Err(_) => Changes::default(),
        }
    }

    // Commands.

    /// Starts a command. Whoever asked may go away at any moment; the command then runs all the same.
    pub async fn run_command(
        self: &Arc<Self>,
        request: CommandRequest,
    ) -> Result<Arc<Command>, SessionError> {
        let session = Arc::clone(self);
        let started = tokio::spawn(async move { session.start_command(request).await }).await;
        started.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn start_command(
        self: Arc<Self>,
        request: CommandRequest,
    ) -> Result<Arc<Command>, SessionError> {
        self.start_something()?;
        check_environment(&request.environment)?;
        if let Some(timeout) = request.timeout
            && (timeout.is_zero() || Instant::now().checked_add(timeout).is_none())
        {
            let seconds = timeout.as_secs_f64();
            return Err(SessionError::Bad(format!("a timeout of {seconds} seconds cannot be had")));
        }
        let turn = self.admission.queue(self.tenant())?.turn().await;
        let mut environment = self.terms.environment.clone();
        environment.extend(request.environment.clone());
        let mut spec = match &request.what {
            What::Line(line) => self.sandbox.shell_line(line),
            What::Program(arguments) => CommandSpec::program(arguments.clone()),
        };
        spec.environment = environment;
        spec.stdin = if request.stdin { Stdin::Piped } else { Stdin::Closed };
        spec.terminal = request.terminal;
        if let Some(directory) = &request.directory {
            spec.directory.clone_from(directory);
        }
        let (limits, shown) = (&self.terms.limits, request.what.shown());
        let begun =
            audit::begin(&self.store, self.tenant(), self.id(), Activity::Command, &shown, limits);
        let ticket = begun.await?;
        let process = match self.sandbox.start_command(&spec).await {
            Ok(process) => process,
            Err(error) => {
                let mut finish = silica_store::audit::Finish::new("cannot_start");
                finish.error = Some(error.to_string());
                audit::finish(&self.store, ticket, &finish);
                return Err(error.into());
            }
        };
        drop(turn);
        let id = {
            let mut inner = self.lock();
            inner.next_command += 1;
            format!("p{}", inner.next_command - 1)
        };
        let command = Command::start(&self, id, &request, process, limits.output_bytes, ticket);
        self.lock().commands.push_back(Arc::clone(&command));
        Ok(command)
    }

    /// A command that runs or is kept.
    pub fn command(&self, id: &str) -> Result<Arc<Command>, SessionError> {
        let found = self.lock().commands.iter().find(|command| command.id == id).cloned();
        found.ok_or_else(|| SessionError::NoCommand(id.to_owned()))
    }

    /// The commands that run or are kept, oldest first.
    pub fn commands(&self) -> Vec<Arc<Command>> {
        self.lock().commands.iter().cloned().collect()
    }

    pub(crate) fn command_ended(&self, output_bytes: u64) {
        self.touch_files();
        self.admission.charge(self.tenant(), output_bytes, Duration::ZERO);
        let mut inner = self.lock();
        inner.last_used = Instant::now();
        let done = |command: &Arc<Command>| matches!(command.phase(), CommandPhase::Done(_));
        while inner.commands.iter().filter(|command| done(command)).count() > KEPT_MAX {
            let Some(oldest) = inner.commands.iter().position(done) else { break };
            inner.commands.remove(oldest);
        }
    }

    // Usage.

    /// What it uses now.
    pub async fn usage(&self) -> Sample {
        let usage = self.sandbox.usage().await.unwrap_or_default();
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
    pub(crate) async fn sample(&self, pause: Duration) {
        if self.lock().sampled.elapsed() < pause {
            return;
        }
        let sample = self.usage().await;
        let mut inner = self.lock();
        inner.sampled = Instant::now();
        inner.samples.add(sample);
    }

    // The end.

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

    /// Waits until nothing of it is left, which somebody else sees to.
    pub(crate) async fn gone(&self) {
        let mut gone = self.gone.subscribe();
        // Bounded as what is waited for is.
        let _ = tokio::time::timeout(GONE_PATIENCE, gone.wait_for(|gone| *gone)).await;
    }

    /// Why it has ended, if it has.
    pub fn end_reason(&self) -> Option<EndReason> {
        *self.ended.borrow()
    }

    /// Ends everything in it; returns when nothing is left.
    pub(crate) async fn take_down(&self) {
        let (kernels, cells, commands) = {
            let mut inner = self.lock();
            let kernels = std::mem::take(&mut inner.kernels);
            (kernels, inner.cells.clone(), inner.commands.clone())
        };
        // A zone that has gone took everything along.
        let ended = self.sandbox.end().await;
        if let Err(error) = ended {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, sandbox = %self.id(), "a sandbox could not be ended");
        }
        // What ran has ended with the sandbox and finds out by itself, and so says what is true.
        for kernel in &kernels {
            kernel.close_after_cell();
        }
        let last_words = || async {
            for cell in &cells {
                cell.done().await;
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
