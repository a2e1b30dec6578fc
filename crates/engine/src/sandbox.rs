//! One sandbox: an enclosure, its files, its commands, and the interpreters in it. Knows nothing of
//! what isolates it.
//!
//! Tests: `tests/it/engine/work.rs`, `tests/it/jail/leftovers.rs`.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use silica_domain::{Containment, Enforcement, Usage};

use crate::command::{CommandDefaults, CommandError, CommandProcess, CommandSpec, Commands};
use crate::files::{FileError, Files, Snapshot};
use crate::image::Image;
use crate::inside::Readers;
use crate::kernel::{Kernel, KernelError};
use crate::network::{GUEST_PREFIXES_MAX, GUEST_SOCKETS_MAX, GuestPrefix, GuestSocket};
use crate::tier::{
    CpuShare, Enclosure, EnclosureSpec, ImageHandle, KernelStart, Life, NewEnclosure, StepFailure,
    TierDriver, TierError, WritableTree,
};

/// What the containment report says of a network with sockets of the host, unless their owner says
/// more.
const OPEN_NETWORK: &str = "loopback, and sockets of the host";

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Its tier could not make the enclosure.
    #[error("cannot make a sandbox")]
    Enclosure(#[source] TierError),
    /// Its first interpreter could not be started.
    #[error("cannot make a sandbox")]
    Kernel(#[source] KernelError),
    /// Its inputs cannot be shown in its working directory.
    #[error("cannot show the inputs in the working directory")]
    Inputs(#[source] FileError),
    /// Its files cannot be reached from the host.
    #[error("cannot reach the files of a new sandbox")]
    Files(#[source] std::io::Error),
}

/// For tests: the step of making a sandbox that fails on purpose; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A step of making the enclosure, by its number within the tier.
    pub enclosure_step: u32,
    /// A step of entering, by its number within the tier.
    pub enter_step: u32,
}

/// Everything that a new sandbox is made from, checked.
#[derive(Clone, Debug)]
pub struct SandboxPlan {
    pub(crate) spec: EnclosureSpec,
    pub(crate) kernel: KernelStart,
    pub(crate) enter_step: u32,
    pub(crate) commands: Arc<CommandDefaults>,
}

impl SandboxPlan {
    /// Returns whether sandboxes of both plans are interchangeable.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.is_poolable()
            && other.is_poolable()
            && self.spec.template == other.spec.template
            && self.spec.limits.fixes_the_same(&other.spec.limits)
            && self.kernel == other.kernel
    }

    /// Returns whether a sandbox made ahead can serve this plan.
    fn is_poolable(&self) -> bool {
        // Inputs are mounted while the sandbox is made, and a fault is meant for one sandbox.
        self.spec.inputs.is_empty() && self.spec.fail_at == 0 && self.enter_step == 0
    }
}

/// A new sandbox, its first interpreter, and a snapshot of its files if one was taken.
#[derive(Debug)]
pub struct Created {
    pub sandbox: Sandbox,
    pub kernel: Kernel,
    pub snapshot: Option<Snapshot>,
}

/// A living sandbox. Dropping it ends it.
#[derive(Debug)]
pub struct Sandbox {
    enclosure: Arc<dyn Enclosure>,
    /// What it was made from; further interpreters are started likewise.
    plan: SandboxPlan,
    files: Arc<Files>,
    commands: Commands,
    pub(crate) readers: Readers,
    /// What its tier enforces for every sandbox.
    containment: Containment,
    /// What the report says of its network, if not what its tier does.
    network: Mutex<Option<Enforcement>>,
    ended: AtomicBool,
}

impl Sandbox {
    /// Asks for an enclosure and an interpreter in it at once, and waits for the enclosure.
    pub(crate) async fn create(
        tier: &dyn TierDriver,
        plan: SandboxPlan,
    ) -> Result<Created, CreateError> {
        let NewEnclosure { enclosure, made } =
            tier.create(&plan.spec).map_err(CreateError::Enclosure)?;
        // Armed until nothing can fail any more. It also acts if the caller drops this future.
        let guard = AbandonOnDrop(Some(&enclosure));
        // Before the enclosure is made: the tier takes both requests in order, and one wait is
        // saved.
        let kernel = Kernel::start(&enclosure, &plan.kernel, plan.enter_step)
            .map_err(CreateError::Kernel)?;
        let sandbox = Self::complete(tier, plan, &enclosure, made).await?;
        guard.disarm();
        Ok(Created { sandbox, kernel, snapshot: None })
    }

    /// Makes a sandbox without an interpreter, in which nothing runs yet.
    pub(crate) async fn create_empty(
        tier: &dyn TierDriver,
        plan: SandboxPlan,
    ) -> Result<Self, CreateError> {
        let NewEnclosure { enclosure, made } =
            tier.create(&plan.spec).map_err(CreateError::Enclosure)?;
        let guard = AbandonOnDrop(Some(&enclosure));
        let sandbox = Self::complete(tier, plan, &enclosure, made).await?;
        guard.disarm();
        Ok(sandbox)
    }

    /// Waits for the enclosure.
    async fn complete(
        tier: &dyn TierDriver,
        plan: SandboxPlan,
        enclosure: &Arc<dyn Enclosure>,
        made: BoxFuture<'static, Result<WritableTree, TierError>>,
    ) -> Result<Self, CreateError> {
        let tree = made.await.map_err(CreateError::Enclosure)?;
        let files = Files::new(tree, plan.spec.limits.disk_bytes).map_err(CreateError::Files)?;
        // No code of a user has run yet.
        for input in &plan.spec.inputs {
            files.link_input(input.name()).map_err(CreateError::Inputs)?;
        }
        Ok(Self {
            enclosure: Arc::clone(enclosure),
            files: Arc::new(files),
            commands: Commands::new(Arc::clone(&plan.commands)),
            plan,
            readers: Readers::default(),
            containment: tier.containment().clone(),
            network: Mutex::default(),
            ended: AtomicBool::new(false),
        })
    }

    /// Returns what it was made from.
    pub(crate) fn plan(&self) -> &SandboxPlan {
        &self.plan
    }

    /// Starts an interpreter that becomes an image.
    pub fn wake(&self, image: &Arc<Image>) -> Result<Kernel, KernelError> {
        let start = KernelStart::Image(ImageHandle(Arc::clone(image)));
        Kernel::start(&self.enclosure, &start, self.plan.enter_step)
    }

    /// Starts a further interpreter of the same kind, with variables of its own.
    pub fn start_kernel(&self) -> Result<Kernel, KernelError> {
        Kernel::start(&self.enclosure, &self.plan.kernel, 0)
    }

    /// Waits until the sandbox has ended without having been asked to; returns whether it ended for
    /// lack of memory.
    pub fn died(&self) -> impl Future<Output = bool> + Send + use<> {
        let mut life = self.enclosure.life();
        async move {
            match life.wait_for(|life| *life != Life::Alive).await.as_deref() {
                Ok(Life::SandboxDied { out_of_memory }) => *out_of_memory,
                _ => false,
            }
        }
    }

    /// Starts a command; returns once the program runs.
    pub async fn start_command(&self, spec: &CommandSpec) -> Result<CommandProcess, CommandError> {
        self.commands.start(&self.enclosure, spec).await
    }

    /// Returns the command that runs a line in the sandbox's shell: bash where the template has it.
    pub fn shell_line(&self, line: &str) -> CommandSpec {
        self.commands.shell_line(line)
    }

    /// Returns the command line of the process that reads for the host.
    pub(crate) fn reader_program(&self) -> &[String] {
        self.commands.reader()
    }

    /// Opens sockets in its network, at most [`GUEST_SOCKETS_MAX`], and makes the addresses of at
    /// most [`GUEST_PREFIXES_MAX`] ranges local there. From then on the containment report says
    /// that its network is not loopback alone. Fails after its end.
    pub async fn open_sockets(
        &self,
        sockets: &[GuestSocket],
        prefixes: &[GuestPrefix],
    ) -> Result<Vec<OwnedFd>, TierError> {
        if sockets.len() > GUEST_SOCKETS_MAX || prefixes.len() > GUEST_PREFIXES_MAX {
            return Err(TierError::TooLong);
        }
        if self.ended.load(Ordering::Acquire) {
            return Err(TierError::Step(StepFailure {
                step: "open-sockets".to_owned(),
                message: "the sandbox has ended".to_owned(),
                errno: None,
            }));
        }
        // Before they exist: the report must not claim more than is enforced.
        self.network().get_or_insert_with(|| Enforcement::Full(OPEN_NETWORK.to_owned()));
        self.enclosure.open_sockets(sockets, prefixes).await
    }

    /// Sets what the containment report says of its network, once the host has opened sockets in
    /// it.
    pub fn report_network(&self, enforcement: Enforcement) {
        *self.network() = Some(enforcement);
    }

    fn network(&self) -> std::sync::MutexGuard<'_, Option<Enforcement>> {
        // One value, replaced whole.
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns its writable files.
    pub fn files(&self) -> &Arc<Files> {
        &self.files
    }

    /// Returns what is enforced.
    pub fn containment(&self) -> Containment {
        let mut containment = self.containment.clone();
        if let Some(enforcement) = self.network().clone() {
            containment.replace("network", enforcement);
        }
        containment
    }

    /// Returns what it has used so far.
    pub fn usage(&self) -> Usage {
        self.enclosure.usage()
    }

    /// Returns the processor time that it has used so far; `None` where it is not measured.
    pub fn cpu_time(&self) -> Option<Duration> {
        self.enclosure.cpu_time()
    }

    /// Changes what it gets of the processors.
    pub fn set_share(&self, share: CpuShare) {
        if !self.ended.load(Ordering::Acquire) {
            self.enclosure.set_share(share);
        }
    }

    /// Returns whether all of it has ended, by itself or on request.
    pub fn is_dead(&self) -> bool {
        let life = self.enclosure.life();
        // The watch of a sandbox that is being ended on request is closed without a last value.
        let alive = *life.borrow() == Life::Alive && life.has_changed().is_ok();
        !alive || self.ended.load(Ordering::Acquire)
    }

    /// Kills everything in it. What is left of it is removed by `destroy`.
    pub async fn kill(&self) -> Result<(), TierError> {
        self.ended.store(true, Ordering::Release);
        self.enclosure.kill().await
    }

    /// Ends it; returns when no process, mount or file of it is left.
    pub async fn destroy(&self) -> Result<(), TierError> {
        self.ended.store(true, Ordering::Release);
        self.enclosure.end().await
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if !*self.ended.get_mut() {
            self.enclosure.abandon();
        }
    }
}

/// Ends an enclosure whose sandbox could not be completed.
struct AbandonOnDrop<'a>(Option<&'a Arc<dyn Enclosure>>);

impl AbandonOnDrop<'_> {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for AbandonOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(enclosure) = self.0 {
            enclosure.abandon();
        }
    }
}

impl AsFd for Sandbox {
    /// Returns the directory of its writable files.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.files.as_fd()
    }
}
