//! The zone master's loop: one thread, one poll, every request a short step.
//!
//! Nothing here waits for a guest. An enclosure being made, a zygote forking and a sandbox dying are
//! states in tables, moved on by packets and by SIGCHLD.
//! Tests: `tests/it/jail/entering.rs`, `tests/it/jail/failing.rs`.

mod commanding;
mod dying;
mod entering;
mod making;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Pid;

use crate::cgroup::Groups;
use crate::protocol::{
    self, EnclosureSpec, Message, NumberedRequest, PACKET_BYTES_MAX, ZoneEvent, ZoneFacts,
    ZoneFailure, ZoneReply, ZoneRequest,
};
use crate::zone::group::Group;
use crate::zone::layout::{self, Template};
use crate::zone::stock::Stock;
use crate::zone::zygote::{Attempts, Recipe, Zygote};
use crate::{seccomp, sys};

use commanding::{Command, Start};
use entering::Entrance;

/// A template, its zygote, and those who wait for it.
#[derive(Debug)]
struct TemplateState {
    layers: Template,
    recipe: Option<Recipe>,
    zygote: Option<Zygote>,
    /// Takes over as soon as it is ready.
    successor: Option<Zygote>,
    /// Was taken over from, and is still working off what it was asked for.
    predecessor: Option<Zygote>,
    waiting: VecDeque<Entrance>,
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
    group: Group,
    uid: u32,
    pid: Pid,
    pidfd: OwnedFd,
    /// Where its processes are forked into.
    pid_namespace: OwnedFd,
    /// Its other namespaces in the order of the gate, once it stands.
    namespaces: Vec<OwnedFd>,
    state: EnclosureState,
    /// Whether the engine has asked for its end, and so reads its meter no more.
    is_given_up: bool,
    /// Who waits for its end.
    destroyers: Vec<u64>,
}

#[derive(Debug)]
enum EnclosureState {
    /// The init is building; its socket, the request to answer, and the thresholds at which
    /// processes wait to enter.
    Making { socket: OwnedFd, number: u64, thresholds: Vec<OwnedFd> },
    /// The init reaps.
    Standing,
    /// It came to nothing; the init is ending.
    Failed,
    /// The init has ended; the group may still be busy.
    Dead,
}

/// An interpreter in an enclosure.
#[derive(Debug)]
struct Kernel {
    enclosure: u64,
    /// The request to answer, until it has forked.
    number: Option<u64>,
    /// The zygote that was asked for it, if one was.
    zygote: Option<Pid>,
    pid: Option<Pid>,
    /// For signals: a pid could belong to another process by the time one is sent.
    pidfd: Option<OwnedFd>,
}

/// Everything the zone master knows.
pub(super) struct Master<'a> {
    engine: &'a OwnedFd,
    signals: OwnedFd,
    own_pid_namespace: OwnedFd,
    zone_namespaces: [u64; 7],
    groups: Groups,
    /// Groups that were still busy when they should have gone.
    leftovers: Vec<String>,
    stock: Stock,
    facts: ZoneFacts,
    filter: Vec<silica_gate::Instruction>,
    templates: HashMap<String, TemplateState>,
    enclosures: HashMap<u64, Enclosure>,
    kernels: HashMap<u64, Kernel>,
    commands: HashMap<u64, Command>,
    next_layer: u64,
}

/// How long to wait for something to do: when the stock is low, when it is not full, which can wait until
/// whoever took from it has had a first answer, when a group is still busy, when there are network
/// namespaces or groups that somebody may want again, and when there is nothing but worn zygotes to look for.
const TICK_LOW: Duration = Duration::from_millis(1);
const TICK_NOT_FULL: Duration = Duration::from_millis(8);
const TICK_BUSY: Duration = Duration::from_millis(5);
const TICK_SPARE: Duration = Duration::from_millis(100);
const TICK_IDLE: Duration = Duration::from_secs(5);

/// Serves the engine until it goes. Returns the exit status.
pub(crate) fn serve(engine: &OwnedFd, groups: Groups, facts: ZoneFacts) -> i32 {
    let outcome = Master::new(engine, groups, facts).and_then(|mut master| {
        protocol::send(engine, &Message::Ready(master.facts.clone()), &[])?;
        master.run()
    });
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            // If the engine has gone there is nobody to tell.
            let failure = ZoneFailure::new("zone-serve", &error);
            let _ = protocol::send(engine, &Message::Failed(failure), &[]);
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
            stock: Stock::new(facts.unique_ids)?,
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
                self.use_the_pause();
            }
            if ready.signals {
                self.reap()?;
            }
            for enclosure in ready.enclosures {
                self.enclosure_reports(enclosure)?;
            }
            for (template, role) in ready.zygotes {
                self.zygote_reports(&template, role, &mut packet)?;
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
            self.bury_the_dead()?;
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
        // While a sandbox dies there is time; otherwise wait to see whether somebody wants one.
        let ending = self.enclosures.values().any(|enclosure| !enclosure.destroyers.is_empty());
        let tick = match (self.may_replenish(), ending) {
            (true, true) => Duration::ZERO,
            (true, false) if self.stock.is_half_gone() => TICK_LOW,
            (true, false) => TICK_NOT_FULL,
            (false, _) if self.is_dying() => TICK_BUSY,
            (false, _) if self.stock.has_spare() => TICK_SPARE,
            (false, _) => TICK_IDLE,
        };
        let timeout = rustix::event::Timespec::try_from(tick).expect("a few seconds fit");
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

    /// Does what is better done while nobody waits.
    fn use_the_pause(&mut self) {
        if self.may_replenish() {
            let enclosures = &self.enclosures;
            let uid_is_used = |uid| enclosures.values().any(|enclosure| enclosure.uid == uid);
            self.stock.replenish(&self.groups, &uid_is_used);
        } else if !self.is_dying() {
            self.stock.forget_spare();
        }
    }

    /// Whether something that has died is still to be cleared away.
    fn is_dying(&self) -> bool {
        let dead = |enclosure: &Enclosure| matches!(enclosure.state, EnclosureState::Dead);
        !self.leftovers.is_empty() || self.enclosures.values().any(dead)
    }

    /// Whether there is something to make ahead and nobody who would wait for it.
    fn may_replenish(&self) -> bool {
        let making =
            |enclosure: &Enclosure| matches!(enclosure.state, EnclosureState::Making { .. });
        self.stock.is_low()
            && !self.enclosures.values().any(making)
            && !self.kernels.values().any(|kernel| kernel.pid.is_none())
    }

    fn handle(&mut self, request: NumberedRequest, fds: Vec<OwnedFd>) -> io::Result<()> {
        let number = request.number;
        match request.request {
            ZoneRequest::AddTemplate(layers) => {
                self.stock.clear();
                let added = layout::add_template(&layers, fds, &mut self.next_layer);
                let result = added.map_err(|error| ZoneFailure::new("template-layers", &error));
                let result = result.map(|template| self.know(layers.name, template));
                self.reply(number, result.map(|()| ZoneReply::Done))
            }
            ZoneRequest::StartZygote { template, program, forks_max, age_ms_max } => {
                let age_max = Duration::from_millis(age_ms_max);
                let recipe = Recipe { program, forks_max, age_max };
                let result = self.start_zygote(&template, recipe);
                self.reply(number, result.map(|()| ZoneReply::Done))
            }
            ZoneRequest::CreateEnclosure { enclosure, spec, inputs, fail_at } => {
                match self.make_enclosure(number, enclosure, spec, inputs, fds, fail_at) {
                    Ok(()) => Ok(()),
                    Err(failure) => self.reply(number, Err(failure)),
                }
            }
            ZoneRequest::Enter { enclosure, kernel, origin, fail_at } => {
                self.enter(Entrance { number, enclosure, kernel, origin, fds, fail_at })
            }
            ZoneRequest::Signal { kernel, signal } => {
                let result = self.signal(kernel, signal);
                self.reply(number, result.map(|()| ZoneReply::Done))
            }
            ZoneRequest::StartCommand { enclosure, command, line, fail_at } => {
                self.start_command(Start { number, enclosure, command, line, fail_at, fds })
            }
            ZoneRequest::SignalCommand { command, signal } => {
                let result = self.signal_command(command, signal);
                self.reply(number, result.map(|()| ZoneReply::Done))
            }
            ZoneRequest::Kill { enclosure } => {
                self.give_up(enclosure);
                self.reply(number, Ok(ZoneReply::Done))
            }
            ZoneRequest::Destroy { enclosure } => self.destroy(number, enclosure),
        }
    }

    fn know(&mut self, name: String, layers: Template) {
        let state = TemplateState {
            layers,
            recipe: None,
            zygote: None,
            successor: None,
            predecessor: None,
            waiting: VecDeque::new(),
            attempts: Attempts::default(),
        };
        self.templates.insert(name, state);
    }

    fn reply(&self, number: u64, result: Result<ZoneReply, ZoneFailure>) -> io::Result<()> {
        protocol::send(self.engine, &Message::Reply { number, result }, &[])
    }

    fn event(&self, event: ZoneEvent) -> io::Result<()> {
        protocol::send(self.engine, &Message::Event(event), &[])
    }
}

/// What one wait found ready.
#[derive(Default)]
struct Ready {
    engine: bool,
    signals: bool,
    enclosures: Vec<u64>,
    zygotes: Vec<(String, Role)>,
}

enum Watched<'a> {
    Engine,
    Signals,
    Enclosure(u64),
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
