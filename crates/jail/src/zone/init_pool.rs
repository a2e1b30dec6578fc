//! A pool of inits, made ahead of time because making one is slow.
//!
//! An idle init was forked into namespaces and a group of its own and waits for a message that says
//! what to become. It has seen nothing of any sandbox. Most idle inits are sent the preparation of
//! the last request at once, since the next request is likely to want the same; a few stay
//! unprepared for a request that wants something else. An init that was given out never comes back.
//!
//! This pool holds single processes, inside the zone. `engine/pool.rs` holds whole sandboxes, with
//! an interpreter that runs, and takes their inits from here like every other sandbox.
//!
//! Tests: `tests/it/jail/init_pool.rs`.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::Pid;
use silica_gate::Instruction;

use crate::cgroup::{GroupLimits, Groups};
use crate::enclosure::{self, Preparation, Step};
use crate::protocol::{self, ZoneFailure};
use crate::seccomp;
use crate::sys::{self, Forked};
use crate::zone::group::{GroupStore, SandboxGroup};
use crate::zone::network::Networks;

/// How many idle inits are kept.
pub(crate) const IDLE_MAX: usize = 16;

/// How many of them stay unprepared.
const UNPREPARED: usize = 4;

/// Ids for sandboxes inside the zone: 0 is the zone's own, and at the top are those that the kernel
/// and distributions use for "nobody".
const FIRST_UID: u32 = 1;
const LAST_UID: u32 = 65_000;

/// An init that waits for its sandbox. It exits when its socket closes.
#[derive(Debug)]
pub(crate) struct IdleInit {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) pid_namespace: OwnedFd,
    pub(crate) socket: OwnedFd,
    /// Its user id as seen in the zone.
    pub(crate) uid: u32,
    pub(crate) group: SandboxGroup,
    /// The preparation it was sent, if any.
    preparation: Option<Preparation>,
    /// Whether it has been in the pool, where it may have died.
    pub(crate) waited: bool,
}

/// A request for an init.
#[derive(Clone, Debug)]
pub(crate) struct InitRequest {
    pub(crate) preparation: Preparation,
    pub(crate) limits: GroupLimits,
}

/// The idle inits, and what is needed to make more.
#[derive(Debug)]
pub(crate) struct InitPool {
    /// The network namespaces that inits are forked into.
    pub(crate) networks: Networks,
    unique_ids: bool,
    /// The filter that an init is left with; see `enclosure::init`.
    init_filter: Vec<Instruction>,
    next_uid: u32,
    idle: VecDeque<IdleInit>,
    pub(crate) groups: GroupStore,
    /// The last request, for which most idle inits are prepared.
    last_request: Option<InitRequest>,
    /// Whether the last attempt to make an init ahead of time failed.
    exhausted: bool,
    /// How many requests there have been.
    requests: u64,
}

impl InitPool {
    /// Creates an empty pool, for the zone whose network namespace the calling thread is in.
    pub(crate) fn new(unique_ids: bool) -> io::Result<Self> {
        Ok(Self {
            networks: Networks::new()?,
            unique_ids,
            init_filter: seccomp::compile(seccomp::INIT_RULES),
            next_uid: FIRST_UID,
            idle: VecDeque::new(),
            groups: GroupStore::default(),
            last_request: None,
            exhausted: false,
            requests: 0,
        })
    }

    /// Returns an init that was sent the requested preparation, in a group with the requested
    /// limits. `uid_is_used` says whether a living sandbox has a user id.
    pub(crate) fn take(
        &mut self,
        request: &InitRequest,
        groups: &Groups,
        uid_is_used: &dyn Fn(u32) -> bool,
    ) -> Result<IdleInit, ZoneFailure> {
        self.requests += 1;
        // A request of a test that wants a step to fail is no model for others.
        if request.preparation.fail_at == 0 {
            self.last_request = Some(request.clone());
        }
        loop {
            let mut init = match self.best_for(&request.preparation) {
                Some(init) => init,
                None => self.make(groups, uid_is_used).inspect(|_| self.exhausted = false)?,
            };
            match init.configure(request, groups) {
                Ok(()) => return Ok(init),
                Err(failure) => {
                    let is_new = init.is_new();
                    self.abandon(init);
                    // An init that waited may have died, or its group may be spoilt: try the next.
                    // The loop ends, because at the latest a new one is made.
                    if is_new {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// Removes the idle init that has the least left to do for a request. If none is prepared for
    /// it, one that is prepared for another template is given up, so that the pool follows a change
    /// of the requests.
    fn best_for(&mut self, preparation: &Preparation) -> Option<IdleInit> {
        if let Some(at) = self.idle.iter().position(|init| init.is_prepared_for(preparation)) {
            return self.idle.remove(at);
        }
        if let Some(at) = self.idle.iter().position(|init| init.preparation.is_some()) {
            let other = self.idle.remove(at)?;
            self.abandon(other);
        }
        let at = self.idle.iter().position(|init| init.preparation.is_none())?;
        self.idle.remove(at)
    }

    /// Gives up an init that got no sandbox. Dropping it closes its socket, upon which it exits.
    pub(crate) fn abandon(&mut self, init: IdleInit) {
        self.groups.discard(init.group.name);
    }

    /// Whether there are network namespaces or groups of ended sandboxes to be used again.
    pub(crate) fn has_spare(&self) -> bool {
        self.networks.has_spare() || self.groups.has_spare()
    }

    /// Gives up the network namespaces and groups that no sandbox has used again.
    pub(crate) fn drop_spare(&mut self) {
        self.networks.drop_spare();
        self.groups.drop_spare();
    }

    /// Removes an idle init that has ended by itself or was killed from outside.
    pub(crate) fn remove(&mut self, pid: Pid) {
        if let Some(at) = self.idle.iter().position(|init| init.pid == pid)
            && let Some(init) = self.idle.remove(at)
        {
            self.abandon(init);
        }
    }

    /// Gives up all idle inits: each has a copy of the zone's mounts, which are about to change.
    pub(crate) fn clear(&mut self) {
        while let Some(init) = self.idle.pop_front() {
            self.abandon(init);
        }
    }

    /// Whether an init is missing, or one can be prepared. A zone that has had one request, as that
    /// of a single run, makes nothing ahead of time.
    pub(crate) fn is_low(&self) -> bool {
        !self.exhausted && self.requests > 1 && (self.idle.len() < IDLE_MAX || self.may_prepare())
    }

    /// Whether so few are left that a burst of requests would soon have to wait.
    pub(crate) fn is_half_empty(&self) -> bool {
        self.idle.len() < IDLE_MAX / 2
    }

    fn may_prepare(&self) -> bool {
        let unprepared = self.idle.iter().filter(|init| init.preparation.is_none());
        self.last_request.is_some() && unprepared.count() > UNPREPARED
    }

    /// Takes one step towards a full pool: prepares an init, or makes one. After a failure nothing
    /// more is made ahead of time; if the cause persists, the next request for an init reports it.
    pub(crate) fn replenish(&mut self, groups: &Groups, uid_is_used: &dyn Fn(u32) -> bool) {
        if self.may_prepare() {
            self.prepare_one(groups);
        } else {
            let made = self.make(groups, uid_is_used);
            self.exhausted = made.is_err();
            self.idle.extend(made.map(|init| IdleInit { waited: true, ..init }));
        }
    }

    fn prepare_one(&mut self, groups: &Groups) {
        let at = self.idle.iter().position(|init| init.preparation.is_none());
        let (Some(at), Some(request)) = (at, &self.last_request) else { return };
        if self.idle[at].configure(request, groups).is_err()
            && let Some(init) = self.idle.remove(at)
        {
            // A failure with a group that was used before says nothing about new groups.
            self.exhausted = !init.group.is_used;
            self.abandon(init);
        }
    }

    fn make(
        &mut self,
        groups: &Groups,
        uid_is_used: &dyn Fn(u32) -> bool,
    ) -> Result<IdleInit, ZoneFailure> {
        let group = self.groups.make(groups).map_err(failure(Step::Groups))?;
        let name = group.name.clone();
        // If a step after the fork fails, the init exits, because its socket is closed.
        self.make_in(group, uid_is_used).inspect_err(|_| self.groups.discard(name))
    }

    fn make_in(
        &mut self,
        group: SandboxGroup,
        uid_is_used: &dyn Fn(u32) -> bool,
    ) -> Result<IdleInit, ZoneFailure> {
        let uid = self.pick_uid(uid_is_used);
        let (socket, theirs) = protocol::pair().map_err(failure(Step::Fork))?;
        match self.fork_init().map_err(failure(Step::Fork))? {
            Forked::Child => enclosure::init(&theirs, &self.init_filter),
            Forked::Parent { pid, pidfd } => {
                // Before it is sent anything: once it has changed its ids, it is not dumpable, and
                // the zone master may not open its files in /proc any more.
                let pid_namespace = File::open(format!("/proc/{}/ns/pid", pid.as_raw_nonzero()));
                let pid_namespace = pid_namespace.map_err(failure(Step::Fork))?.into();
                write_maps(pid, uid).map_err(failure(Step::Ids))?;
                Ok(IdleInit {
                    pid,
                    pidfd,
                    pid_namespace,
                    socket,
                    uid,
                    group,
                    preparation: None,
                    waited: false,
                })
            }
        }
    }

    /// Forks a process into new namespaces, one of them a network namespace in which only loopback
    /// exists and is up.
    fn fork_init(&mut self) -> io::Result<Forked> {
        // The master itself enters the network namespace for the moment of the fork: a namespace
        // that is used again cannot be asked for by a flag of clone.
        let forked = self.networks.enter().and_then(|()| sys::fork_into(enclosure::NAMESPACES));
        // The child stays in it, and has no capability to join another.
        if !matches!(forked, Ok(Forked::Child)) {
            self.networks.leave()?;
        }
        forked
    }

    /// Returns the zone's user id for the next sandbox: one that no other sandbox has if the zone
    /// has a range, else the zone's only id.
    fn pick_uid(&mut self, is_used: &dyn Fn(u32) -> bool) -> u32 {
        if !self.unique_ids {
            return 0;
        }
        loop {
            let uid = self.next_uid;
            self.next_uid = if uid >= LAST_UID { FIRST_UID } else { uid + 1 };
            if !is_used(uid) && !self.idle.iter().any(|init| init.uid == uid) {
                return uid;
            }
        }
    }
}

impl IdleInit {
    /// Whether neither the init nor its group existed before this request.
    pub(crate) fn is_new(&self) -> bool {
        !self.waited && !self.group.is_used
    }

    /// Whether it was sent a preparation that fits. The size of the writable file system may
    /// differ, since the order can still change it.
    fn is_prepared_for(&self, wanted: &Preparation) -> bool {
        self.preparation
            .as_ref()
            .is_some_and(|own| own.template == wanted.template && own.fail_at == wanted.fail_at)
    }

    /// Sets the limits of its group, and sends the preparation if it has none yet.
    fn configure(&mut self, request: &InitRequest, groups: &Groups) -> Result<(), ZoneFailure> {
        self.group.limit(groups, request.limits).map_err(failure(Step::Groups))?;
        if self.preparation.is_none() {
            let sent = request.preparation.send(&self.socket, &self.group.procs_fds);
            sent.map_err(failure(Step::Fork))?;
            self.preparation = Some(request.preparation.clone());
        }
        Ok(())
    }
}

fn failure(step: Step) -> impl Fn(io::Error) -> ZoneFailure {
    move |error| ZoneFailure::new(step.name(), &error)
}

/// Maps exactly one id of the sandbox, the guest's, to `uid` of the zone.
fn write_maps(pid: Pid, uid: u32) -> io::Result<()> {
    let file = |name: &str| format!("/proc/{}/{name}", pid.as_raw_nonzero());
    let line = format!("{} {uid} 1", enclosure::GUEST_ID);
    // An unprivileged process may write a group map only after this; user_namespaces(7).
    std::fs::write(file("setgroups"), "deny")?;
    std::fs::write(file("uid_map"), &line)?;
    std::fs::write(file("gid_map"), &line)
}
