//! One sandbox: an enclosure, its files, and the interpreters in it.
//! Tests: `tests/it/engine/work.rs`, `tests/it/jail/leftovers.rs`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use silica_domain::{Containment, Limits};
use silica_jail::cgroup::{Gauge, Meter, Usage};
use silica_jail::protocol::{EnclosureSpec, Origin, ZoneReply, ZoneRequest};
use tokio::sync::{mpsc, watch};

use crate::command::{Command, CommandError, CommandSpec, Commands, Surroundings};
use crate::files::{Files, Snapshot};
use crate::inputs::Prepared;
use crate::kernel::{Control, Kernel, KernelError, Report, Setup, Watcher};
use crate::zone::{CallError, Life, ZoneHandle};

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The enclosure.
    #[error("cannot make a sandbox")]
    Enclosure(#[source] CallError),
    /// The interpreter.
    #[error("cannot make a sandbox")]
    Kernel(#[source] KernelError),
    /// The zone answered what it should not.
    #[error("the zone process gave a wrong answer")]
    WrongAnswer,
}

/// For tests: which step of making a sandbox fails on purpose; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A step of [`silica_jail::enclosure::Step`].
    pub enclosure_step: u32,
    /// A step of the gate.
    pub enter_step: u32,
}

/// Everything a new sandbox needs.
pub(crate) struct Plan {
    pub(crate) spec: EnclosureSpec,
    pub(crate) inputs: Vec<Prepared>,
    pub(crate) origin: Origin,
    pub(crate) faults: Faults,
    pub(crate) surroundings: Arc<Surroundings>,
}

/// A living sandbox. Dropping it ends it.
#[derive(Debug)]
pub struct Sandbox {
    id: u64,
    zone: ZoneHandle,
    /// How an interpreter comes in.
    origin: Origin,
    life: watch::Receiver<Life>,
    /// The first interpreter, until somebody takes it.
    kernel: Option<Kernel>,
    meter: Arc<Meter>,
    files: Arc<Files>,
    /// How they stood when it was kept ready, until somebody takes it.
    seen: Option<Snapshot>,
    commands: Commands,
    containment: Containment,
    ended: AtomicBool,
}

impl Sandbox {
    /// Makes an enclosure and asks for an interpreter in it, at once.
    pub(crate) async fn create(
        zone: &ZoneHandle,
        plan: Plan,
        containment: Containment,
    ) -> Result<Self, CreateError> {
        let (id, disk_bytes) = (zone.number(), plan.spec.disk_bytes);
        let inputs = plan.inputs.iter().map(|input| input.mount.clone()).collect();
        let trees: Vec<BorrowedFd<'_>> =
            plan.inputs.iter().filter_map(|input| input.tree.as_ref().map(AsFd::as_fd)).collect();
        let request = ZoneRequest::CreateEnclosure {
            enclosure: id,
            spec: plan.spec,
            inputs,
            fail_at: plan.faults.enclosure_step,
        };
        let life = zone.watch_enclosure(id);
        let enclosure = zone.send(request, &trees).map_err(CreateError::Enclosure)?;
        let mut guard = EndOnDrop { id, zone, armed: true };
        let mut kernel = Kernel::start(zone, id, plan.origin.clone(), plan.faults.enter_step)
            .map_err(CreateError::Kernel)?;
        let answer =
            enclosure.await.unwrap_or(Err(CallError::Gone)).map_err(CreateError::Enclosure)?;
        let (ZoneReply::Enclosure { gauges, before }, fds) = answer else {
            return Err(CreateError::WrongAnswer);
        };
        let (writable, meter) = take(&gauges, before, fds).ok_or(CreateError::WrongAnswer)?;
        kernel.measure(&meter);
        let files = Files::new(writable, disk_bytes).map_err(|_| CreateError::WrongAnswer)?;
        guard.armed = false;
        let files = Arc::new(files);
        let commands = Commands::new(plan.surroundings);
        let (zone, origin, kernel) = (zone.clone(), plan.origin, Some(kernel));
        let (seen, ended) = (None, AtomicBool::new(false));
        Ok(Self {
            id,
            zone,
            origin,
            life,
            kernel,
            meter,
            files,
            seen,
            commands,
            containment,
            ended,
        })
    }

    /// Takes the first interpreter out, for use beside this.
    pub fn take_kernel(&mut self) -> Option<Kernel> {
        self.kernel.take()
    }

    /// How its files stand, if somebody has looked before it was handed over.
    pub fn take_seen(&mut self) -> Option<Snapshot> {
        self.seen.take()
    }

    /// Starts a further interpreter of the same kind, with variables of its own.
    pub fn start_kernel(&self) -> Result<Kernel, KernelError> {
        let mut kernel = Kernel::start(&self.zone, self.id, self.origin.clone(), 0)?;
        kernel.measure(&self.meter);
        Ok(kernel)
    }

    /// Waits until the whole sandbox has ended without having been asked to; tells whether for lack
    /// of memory.
    pub fn died(&self) -> impl Future<Output = bool> + Send + use<> {
        let mut life = self.life.clone();
        async move {
            match life.wait_for(|life| *life != Life::Alive).await.as_deref() {
                Ok(Life::SandboxDied { out_of_memory }) => *out_of_memory,
                _ => false,
            }
        }
    }

    fn kernel(&mut self) -> Result<&mut Kernel, KernelError> {
        self.kernel.as_mut().ok_or(KernelError::Ended)
    }

    /// Waits until the interpreter is ready.
    pub async fn ready(&mut self) -> Result<(), KernelError> {
        self.kernel()?.ready().await
    }

    /// Sets variables and arguments before the first cell.
    pub async fn set_up(&mut self, setup: &Setup) -> Result<(), KernelError> {
        self.kernel()?.set_up(setup).await
    }

    /// Does ahead what the first cell would otherwise wait for; the interpreter does its part by itself.
    pub(crate) fn look_ahead(&mut self) {
        self.seen = self.files.glance().ok().flatten();
    }

    /// Runs one cell.
    pub async fn run(
        &mut self,
        code: &str,
        limits: &Limits,
        watcher: &mut dyn Watcher,
        controls: &mut mpsc::Receiver<Control>,
    ) -> Result<Report, KernelError> {
        self.kernel()?.run(code, limits, watcher, controls).await
    }

    /// Starts a command beside whatever runs in the sandbox; returns once the program runs.
    pub async fn start_command(&self, spec: &CommandSpec) -> Result<Command, CommandError> {
        self.commands.start(&self.zone, self.id, spec).await
    }

    /// A line for the sandbox's shell: bash where the template has it.
    pub fn shell_line(&self, line: &str) -> CommandSpec {
        self.commands.line(line)
    }

    /// Whether more cells can be run.
    pub fn is_alive(&self) -> bool {
        self.kernel.as_ref().is_some_and(Kernel::is_alive)
    }

    /// Its writable files.
    pub fn files(&self) -> &Arc<Files> {
        &self.files
    }

    /// What is really enforced.
    pub fn containment(&self) -> &Containment {
        &self.containment
    }

    /// What it has used so far.
    pub fn usage(&self) -> Usage {
        self.meter.read()
    }

    /// Whether all of it has ended, by itself or because it was asked to.
    pub fn is_dead(&self) -> bool {
        let alive = *self.life.borrow() == Life::Alive && self.life.has_changed().is_ok();
        !alive || self.ended.load(Ordering::Acquire)
    }

    /// Kills everything in it; returns when the kernel has been told, which lets none of it go on.
    /// It is still to be ended.
    pub async fn kill(&self) -> Result<(), CallError> {
        self.give_up();
        self.zone.call(ZoneRequest::Kill { enclosure: self.id }, &[]).await.map(drop)
    }

    /// Ends it; returns when no process or mount of it is left, and nothing of it in its group.
    pub async fn end(&self) -> Result<(), CallError> {
        self.give_up();
        self.zone.call(ZoneRequest::Destroy { enclosure: self.id }, &[]).await.map(drop)
    }

    /// The same, for whoever has it for himself.
    pub async fn destroy(self) -> Result<(), CallError> {
        self.end().await
    }

    /// Has nothing to do with it any more; done before the zone hears of it, since its group may be another's
    /// soon after.
    fn give_up(&self) {
        self.ended.store(true, Ordering::Release);
        self.meter.close();
        self.zone.forget_enclosure(self.id);
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if !*self.ended.get_mut() {
            self.meter.close();
            end(&self.zone, self.id);
        }
    }
}

/// Ends an enclosure whose making did not succeed.
struct EndOnDrop<'a> {
    id: u64,
    zone: &'a ZoneHandle,
    armed: bool,
}

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            end(self.zone, self.id);
        }
    }
}

/// Asks for an enclosure's end without waiting for it.
fn end(zone: &ZoneHandle, enclosure: u64) {
    zone.forget_enclosure(enclosure);
    // Without a runtime the whole zone is ending.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let zone = zone.clone();
        runtime.spawn(async move {
            // A zone that has gone took the enclosure along.
            let _ = zone.call(ZoneRequest::Destroy { enclosure }, &[]).await;
        });
    }
}

/// What comes with an enclosure: its writable directory, and what measures it.
fn take(gauges: &[Gauge], before: Usage, mut fds: Vec<OwnedFd>) -> Option<(OwnedFd, Arc<Meter>)> {
    let writable = (!fds.is_empty()).then(|| fds.remove(0))?;
    let meter = Meter::received(gauges, before, fds)?;
    Some((writable, Arc::new(meter)))
}

impl AsFd for Sandbox {
    /// The directory of its writable places.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.files.as_fd()
    }
}
