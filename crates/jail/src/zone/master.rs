//! The zone master's loop: one thread, one poll, every request a short step.
//!
//! Nothing here waits for a guest. An enclosure that is being made, a zygote that forks and a
//! sandbox that dies are states in tables; packets and SIGCHLD move them on. What the steps do is
//! in the modules below, by phase: `making`, `entering`, `zygotes`, `commanding`, `networking`,
//! `dying`.
//!
//! Tests: `tests/it/jail/entering.rs`, `tests/it/jail/failing.rs`.

mod commanding;
mod dying;
mod entering;
mod making;
mod networking;
mod numbers;
mod zygotes;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Pid;

use crate::cgroup::Groups;
use crate::protocol::{
    self, EnclosureSpec, NumberedRequest, PACKET_BYTES_MAX, ZoneEvent, ZoneFacts, ZoneFailure,
    ZoneMessage, ZoneReply, ZoneRequest,
};
use crate::zone::group::SandboxGroup;
use crate::zone::init_pool::InitPool;
use crate::zone::layout::{self, MountedTemplate};
use crate::zone::zygote::{Attempts, Zygote, ZygoteSpec};
use crate::{seccomp, sys};

use commanding::{CommandProcess, StartCommand};
use entering::EnterRequest;
use making::CreateRequest;
use networking::{NetworkUse, OpenRequest};
use numbers::{CommandNumber, EnclosureNumber, KernelNumber, RequestNumber};

/// A template, its zygotes, and the requests that wait for one.
#[derive(Debug)]
struct TemplateState {
    layers: MountedTemplate,
    zygote_spec: Option<ZygoteSpec>,
    zygote: Option<Zygote>,
    /// Replaces the current zygote as soon as it is ready.
    successor: Option<Zygote>,
    /// Was replaced, and still answers the requests it had been sent.
    predecessor: Option<Zygote>,
    waiting: VecDeque<EnterRequest>,
    attempts: Attempts,
}

/// Which of a template's zygotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Current,
    Successor,
    Predecessor,
}

impl Role {
    const ALL: [Self; 3] = [Self::Current, Self::Successor, Self::Predecessor];
}

impl TemplateState {
    fn zygote(&self, role: Role) -> Option<&Zygote> {
        match role {
            Role::Current => self.zygote.as_ref(),
            Role::Successor => self.successor.as_ref(),
            Role::Predecessor => self.predecessor.as_ref(),
        }
    }

    fn zygote_mut(&mut self, role: Role) -> &mut Option<Zygote> {
        match role {
            Role::Current => &mut self.zygote,
            Role::Successor => &mut self.successor,
            Role::Predecessor => &mut self.predecessor,
        }
    }
}

/// A sandbox's enclosure.
#[derive(Debug)]
struct Enclosure {
    spec: EnclosureSpec,
    group: SandboxGroup,
    /// Its user id as seen in the zone.
    uid: u32,
    /// Its init.
    pid: Pid,
    pidfd: OwnedFd,
    /// Its pid namespace, into which its processes are forked.
    pid_namespace: OwnedFd,
    /// Its other namespaces in the order of the gate; empty until it is ready.
    namespaces: Vec<OwnedFd>,
    /// What the master has done in its network namespace.
    network: NetworkUse,
    state: EnclosureState,
    /// Whether the engine has asked for its end. From then on the engine does not read its meter,
    /// so its group may be used again.
    is_given_up: bool,
    /// The requests to answer when nothing of it is left.
    destroyers: Vec<RequestNumber>,
}

#[derive(Debug)]
enum EnclosureState {
    /// The init is building. The namespaces go to each of the `namespace_sockets` when it is done:
    /// processes that have been forked to enter wait at their other ends.
    Making { socket: OwnedFd, number: RequestNumber, namespace_sockets: Vec<OwnedFd> },
    /// The init is done building, and only reaps.
    Ready,
    /// A step of the init failed; it is ending.
    Failed,
    /// The init has ended; the group may still be busy.
    Dead,
}

/// An interpreter in an enclosure.
#[derive(Debug)]
struct Kernel {
    enclosure: EnclosureNumber,
    /// The request to answer when the zygote has forked it.
    number: Option<RequestNumber>,
    /// The zygote it is forked from; `None` for a program of its own.
    zygote: Option<Pid>,
    /// `None` until the zygote has forked it.
    pid: Option<Pid>,
    /// For signals: by the time one is sent, its pid could belong to another process.
    pidfd: Option<OwnedFd>,
}

/// The state of the zone master.
pub(super) struct Master<'a> {
    engine: &'a OwnedFd,
    signals: OwnedFd,
    own_pid_namespace: OwnedFd,
    /// The zone's own namespaces, none of which a guest may be in; the gate compares them.
    zone_namespaces: [u64; 7],
    groups: Groups,
    /// Groups to remove as soon as the kernel does not call them busy any more.
    leftovers: Vec<String>,
    init_pool: InitPool,
    facts: ZoneFacts,
    /// The filter of guest processes.
    filter: Vec<silica_gate::Instruction>,
    templates: HashMap<String, TemplateState>,
    enclosures: HashMap<EnclosureNumber, Enclosure>,
    kernels: HashMap<KernelNumber, Kernel>,
    commands: HashMap<CommandNumber, CommandProcess>,
    /// Numbers the mount points of the layers of templates.
    next_layer: u64,
}

/// How long `poll` waits while more than half of the pool of inits is gone.
const TICK_LOW: Duration = Duration::from_millis(1);

/// While the pool is not full: long enough for the first cell of the sandbox that took an init,
/// which making another one would slow down.
const TICK_NOT_FULL: Duration = Duration::from_millis(8);

/// While the kernel still calls a group busy that is to be removed.
const TICK_BUSY: Duration = Duration::from_millis(5);

/// While there are spare network namespaces or groups; after this long without a request they are
/// given up.
const TICK_SPARE: Duration = Duration::from_millis(100);

/// While there is nothing to do but to look for zygotes that are due for replacement.
const TICK_IDLE: Duration = Duration::from_secs(5);

/// Serves the engine until it closes its socket. Returns the exit status.
pub(crate) fn serve(engine: &OwnedFd, groups: Groups, facts: ZoneFacts) -> i32 {
    let outcome = Master::new(engine, groups, facts).and_then(|mut master| {
        protocol::send(engine, &ZoneMessage::Ready(master.facts.clone()), &[])?;
        master.run()
    });
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            // If this cannot be sent, the engine has gone.
            let failure = ZoneFailure::new("zone-serve", &error);
            let _ = protocol::send(engine, &ZoneMessage::Failed(failure), &[]);
            1
        }
    }
}

impl<'a> Master<'a> {
    fn new(engine: &'a OwnedFd, groups: Groups, facts: ZoneFacts) -> io::Result<Self> {
        Ok(Self {
            engine,
            signals: sys::child_signals()?,
            own_pid_namespace: std::fs::File::open("/proc/self/ns/pid")?.into(),
            zone_namespaces: namespaces()?,
            groups,
            leftovers: Vec::new(),
            init_pool: InitPool::new(facts.unique_ids)?,
            facts,
            filter: seccomp::compile(seccomp::RULES),
            templates: HashMap::new(),
            enclosures: HashMap::new(),
            kernels: HashMap::new(),
            commands: HashMap::new(),
            next_layer: 0,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut packet = vec![0; PACKET_BYTES_MAX];
        loop {
            let ready = self.wait()?;
            if ready.is_idle() {
                self.on_idle();
            }
            // Ends come first, so that a request finds the tables up to date.
            if ready.signals {
                self.reap()?;
            }
            for enclosure in ready.enclosures {
                self.on_init_report(enclosure)?;
            }
            for (template, role) in ready.zygotes {
                self.on_zygote_packet(&template, role, &mut packet)?;
            }
            if ready.engine {
                match protocol::receive(self.engine, &mut packet)? {
                    None => return Ok(()),
                    Some((length, fds)) => {
                        let request: NumberedRequest = protocol::parse(&packet[..length])?;
                        self.handle(request, fds)?;
                    }
                }
            }
            self.remove_dead()?;
            self.replace_worn_zygotes();
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let mut watched: Vec<(BorrowedFd<'_>, Watched<'_>)> =
            vec![(self.engine.as_fd(), Watched::Engine), (self.signals.as_fd(), Watched::Signals)];
        for (&id, enclosure) in &self.enclosures {
            if let EnclosureState::Making { socket, .. } = &enclosure.state {
                watched.push((socket.as_fd(), Watched::Enclosure(id)));
            }
        }
        for (name, template) in &self.templates {
            for role in Role::ALL {
                if let Some(zygote) = template.zygote(role) {
                    watched.push((zygote.socket.as_fd(), Watched::Zygote(name, role)));
                }
            }
        }
        // While a sandbox ends the master only waits for the kernel, so an init is made at once.
        // Otherwise it waits a little for another request, which an init in the making would delay.
        let ending = self.enclosures.values().any(|enclosure| !enclosure.destroyers.is_empty());
        let tick = match (self.may_replenish(), ending) {
            (true, true) => Duration::ZERO,
            (true, false) if self.init_pool.is_half_empty() => TICK_LOW,
            (true, false) => TICK_NOT_FULL,
            (false, _) if self.is_dying() => TICK_BUSY,
            (false, _) if self.init_pool.has_spare() => TICK_SPARE,
            (false, _) => TICK_IDLE,
        };
        let timeout = rustix::event::Timespec::try_from(tick).expect("every tick is short");
        let mut polled: Vec<PollFd<'_>> =
            watched.iter().map(|(fd, _)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = Ready::default();
        for (polled, (_, watched)) in polled.iter().zip(&watched) {
            if !polled.revents().is_empty() {
                ready.note(watched);
            }
        }
        Ok(ready)
    }

    /// Does the work that would delay a request: fills the pool by one, or gives up spare
    /// resources.
    fn on_idle(&mut self) {
        if self.may_replenish() {
            let enclosures = &self.enclosures;
            let uid_is_used = |uid| enclosures.values().any(|enclosure| enclosure.uid == uid);
            self.init_pool.replenish(&self.groups, &uid_is_used);
        } else if !self.is_dying() {
            self.init_pool.drop_spare();
        }
    }

    /// Whether a dead enclosure or a group is still to be removed.
    fn is_dying(&self) -> bool {
        let dead = |enclosure: &Enclosure| matches!(enclosure.state, EnclosureState::Dead);
        !self.leftovers.is_empty() || self.enclosures.values().any(dead)
    }

    /// Whether the pool of inits can be filled without delaying an enclosure or an interpreter.
    fn may_replenish(&self) -> bool {
        let making =
            |enclosure: &Enclosure| matches!(enclosure.state, EnclosureState::Making { .. });
        self.init_pool.is_low()
            && !self.enclosures.values().any(making)
            && !self.kernels.values().any(|kernel| kernel.pid.is_none())
    }

    fn handle(&mut self, request: NumberedRequest, fds: Vec<OwnedFd>) -> io::Result<()> {
        let number = RequestNumber(request.number);
        match request.request {
            ZoneRequest::AddTemplate(layers) => {
                // Each idle init has a copy of the zone's mounts, without the new layers.
                self.init_pool.clear();
                let added = layout::add_template(&layers, fds, &mut self.next_layer);
                let result = added.map_err(|error| ZoneFailure::new("template-layers", &error));
                let result = result.map(|template| self.insert_template(layers.name, template));
                self.reply(number, result.map(|()| ZoneReply::Done))
            }
            ZoneRequest::StartZygote { template, program, forks_max, age_ms_max } => {
                let age_max = Duration::from_millis(age_ms_max);
                let zygote_spec = ZygoteSpec { program, forks_max, age_max };
                let result = self.start_zygote(&template, zygote_spec);
                self.reply(number, result.map(|()| ZoneReply::Done))
            }
            ZoneRequest::CreateEnclosure { enclosure, spec, inputs, fail_at } => {
                let enclosure = EnclosureNumber(enclosure);
                self.create(CreateRequest { number, enclosure, spec, inputs, fds, fail_at })
            }
            ZoneRequest::Enter { enclosure, kernel, origin, fail_at } => {
                let enclosure = EnclosureNumber(enclosure);
                let kernel = KernelNumber(kernel);
                self.enter(EnterRequest { number, enclosure, kernel, origin, fds, fail_at })
            }
            ZoneRequest::Signal { kernel, signal } => {
                let result = self.signal(KernelNumber(kernel), signal);
                self.reply(number, result.map(|()| ZoneReply::Done))
            }
            ZoneRequest::StartCommand { enclosure, command, line, fail_at } => {
                let enclosure = EnclosureNumber(enclosure);
                let command = CommandNumber(command);
                self.start_command(StartCommand { number, enclosure, command, line, fail_at, fds })
            }
            ZoneRequest::SignalCommand { command, signal } => {
                let result = self.signal_command(CommandNumber(command), signal);
                self.reply(number, result.map(|()| ZoneReply::Done))
            }
            ZoneRequest::Share { enclosure, share } => {
                let result = self.share(EnclosureNumber(enclosure), share);
                self.reply(number, result.map(|()| ZoneReply::Done))
            }
            ZoneRequest::OpenSockets { enclosure, sockets, prefixes } => {
                let enclosure = EnclosureNumber(enclosure);
                self.open_sockets(&OpenRequest { number, enclosure, sockets, prefixes })
            }
            ZoneRequest::Kill { enclosure } => {
                self.give_up(EnclosureNumber(enclosure));
                self.reply(number, Ok(ZoneReply::Done))
            }
            ZoneRequest::Destroy { enclosure } => self.destroy(number, EnclosureNumber(enclosure)),
        }
    }

    fn insert_template(&mut self, name: String, layers: MountedTemplate) {
        let state = TemplateState {
            layers,
            zygote_spec: None,
            zygote: None,
            successor: None,
            predecessor: None,
            waiting: VecDeque::new(),
            attempts: Attempts::default(),
        };
        self.templates.insert(name, state);
    }

    fn reply(
        &self,
        number: RequestNumber,
        result: Result<ZoneReply, ZoneFailure>,
    ) -> io::Result<()> {
        protocol::send(self.engine, &ZoneMessage::Reply { number: number.0, result }, &[])
    }

    fn event(&self, event: ZoneEvent) -> io::Result<()> {
        protocol::send(self.engine, &ZoneMessage::Event(event), &[])
    }
}

/// What one `poll` found readable.
#[derive(Default)]
struct Ready {
    engine: bool,
    signals: bool,
    enclosures: Vec<EnclosureNumber>,
    zygotes: Vec<(String, Role)>,
}

/// Whose descriptor is polled.
enum Watched<'a> {
    Engine,
    Signals,
    Enclosure(EnclosureNumber),
    Zygote(&'a str, Role),
}

impl Ready {
    fn is_idle(&self) -> bool {
        !self.engine && !self.signals && self.enclosures.is_empty() && self.zygotes.is_empty()
    }

    fn note(&mut self, watched: &Watched<'_>) {
        match *watched {
            Watched::Engine => self.engine = true,
            Watched::Signals => self.signals = true,
            Watched::Enclosure(id) => self.enclosures.push(id),
            Watched::Zygote(name, role) => self.zygotes.push((name.to_owned(), role)),
        }
    }
}

/// The inode numbers of this process's namespaces, in the order the gate compares them.
fn namespaces() -> io::Result<[u64; 7]> {
    use std::os::unix::fs::MetadataExt;
    let mut inodes = [0; 7];
    for (inode, name) in
        inodes.iter_mut().zip(["user", "mnt", "net", "ipc", "uts", "pid", "cgroup"])
    {
        *inode = std::fs::metadata(format!("/proc/self/ns/{name}"))?.ino();
    }
    Ok(inodes)
}
