//! Inits made ahead, because making one takes long.
//!
//! A blank is an init that was forked into namespaces and groups of its own and waits to be told what to
//! become. It has seen nothing of any sandbox and is the same for all. Most are told at once to prepare
//! for what the last customer wanted, since the next is likely to want the same; a few stay blank for
//! whoever wants something else. One that was given out is never taken back.
//! Tests: `tests/it/jail/stock.rs`.

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
use crate::zone::group::{Group, GroupStore};
use crate::zone::network::Networks;

/// How many are kept, and how many of them blank.
pub(crate) const STOCK: usize = 16;
const BLANK: usize = 4;

/// Ids handed out inside the zone: 0 is the zone's own, the top is the kernel's "nobody".
const FIRST_UID: u32 = 1;
const LAST_UID: u32 = 65_000;

/// An init that waits; it leaves when its socket closes.
#[derive(Debug)]
pub(crate) struct Blank {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) pid_namespace: OwnedFd,
    pub(crate) socket: OwnedFd,
    /// The id it has outside, in the zone.
    pub(crate) uid: u32,
    pub(crate) group: Group,
    /// What it was told to prepare.
    preparation: Option<Preparation>,
    /// Whether it may have died since it was made.
    pub(crate) waited: bool,
}

/// What a customer wants.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) preparation: Preparation,
    pub(crate) limits: GroupLimits,
}

/// Things made ahead.
#[derive(Debug)]
pub(crate) struct Stock {
    /// Where blanks are forked.
    pub(crate) networks: Networks,
    unique_ids: bool,
    /// What an init is left with; see `enclosure::init`.
    init_filter: Vec<Instruction>,
    next_uid: u32,
    blanks: VecDeque<Blank>,
    pub(crate) groups: GroupStore,
    /// What the last customer wanted.
    usual: Option<Wish>,
    exhausted: bool,
    customers: u64,
}

impl Stock {
    /// An empty stock, for the zone whose network namespace the calling thread is in.
    pub(crate) fn new(unique_ids: bool) -> io::Result<Self> {
        Ok(Self {
            networks: Networks::new()?,
            unique_ids,
            init_filter: seccomp::compile(seccomp::INIT_RULES),
            next_uid: FIRST_UID,
            blanks: VecDeque::new(),
            groups: GroupStore::default(),
            usual: None,
            exhausted: false,
            customers: 0,
        })
    }

    /// An init that has prepared what is wished, or has been told to, in a group with the wished limits;
    /// `uid_is_used` tells which ids living sandboxes have.
    pub(crate) fn take(
        &mut self,
        wish: &Wish,
        groups: &Groups,
        uid_is_used: &dyn Fn(u32) -> bool,
    ) -> Result<Blank, ZoneFailure> {
        self.customers += 1;
        if wish.preparation.fail_at == 0 {
            self.usual = Some(wish.clone());
        }
        loop {
            let mut blank = match self.best_for(&wish.preparation) {
                Some(blank) => blank,
                None => self.make(groups, uid_is_used).inspect(|_| self.exhausted = false)?,
            };
            match blank.fit(wish, groups) {
                Ok(()) => return Ok(blank),
                Err(failure) => {
                    let is_new = blank.is_new();
                    self.abandon(blank);
                    // The next may do, and a new one surely does.
                    if is_new {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// The one that has the least left to do, if there is any. Whoever finds none prepared takes one
    /// away that was prepared for others, so that the stock follows its customers.
    fn best_for(&mut self, preparation: &Preparation) -> Option<Blank> {
        if let Some(at) = self.blanks.iter().position(|blank| blank.suits(preparation)) {
            return self.blanks.remove(at);
        }
        if let Some(at) = self.blanks.iter().position(|blank| blank.preparation.is_some()) {
            let other = self.blanks.remove(at)?;
            self.abandon(other);
        }
        let at = self.blanks.iter().position(|blank| blank.preparation.is_none())?;
        self.blanks.remove(at)
    }

    /// Gives an init up that was not given out, or whose customer could not be served.
    pub(crate) fn abandon(&mut self, blank: Blank) {
        self.groups.discard(blank.group.name);
    }

    /// Whether there is something of sandboxes that have ended to be used again.
    pub(crate) fn has_spare(&self) -> bool {
        self.networks.has_spare() || self.groups.has_spare()
    }

    /// Gives up what nobody has wanted.
    pub(crate) fn forget_spare(&mut self) {
        self.networks.forget_spare();
        self.groups.forget_spare();
    }

    /// An init has ended by itself, or was killed from outside.
    pub(crate) fn forget(&mut self, pid: Pid) {
        if let Some(at) = self.blanks.iter().position(|blank| blank.pid == pid)
            && let Some(blank) = self.blanks.remove(at)
        {
            self.abandon(blank);
        }
    }

    /// Gives all up: the zone's mounts, of which each has a copy, are about to change.
    pub(crate) fn clear(&mut self) {
        while let Some(blank) = self.blanks.pop_front() {
            self.abandon(blank);
        }
    }

    /// Whether something is missing and can be made. A zone that has had one customer, as that of a
    /// single run, makes nothing ahead.
    pub(crate) fn is_low(&self) -> bool {
        !self.exhausted && self.customers > 1 && (self.blanks.len() < STOCK || self.may_prepare())
    }

    /// Whether it would not last long if many came now.
    pub(crate) fn is_half_gone(&self) -> bool {
        self.blanks.len() < STOCK / 2
    }

    fn may_prepare(&self) -> bool {
        let blank = self.blanks.iter().filter(|blank| blank.preparation.is_none());
        self.usual.is_some() && blank.count() > BLANK
    }

    /// Takes one step towards a full stock. After a failure nothing is made ahead any more: the failure
    /// shows again, and is told, when the thing is needed.
    pub(crate) fn replenish(&mut self, groups: &Groups, uid_is_used: &dyn Fn(u32) -> bool) {
        if self.may_prepare() {
            self.prepare_one(groups);
        } else {
            let made = self.make(groups, uid_is_used);
            self.exhausted = made.is_err();
            self.blanks.extend(made.map(|blank| Blank { waited: true, ..blank }));
        }
    }

    fn prepare_one(&mut self, groups: &Groups) {
        let at = self.blanks.iter().position(|blank| blank.preparation.is_none());
        let (Some(at), Some(wish)) = (at, &self.usual) else { return };
        if self.blanks[at].fit(wish, groups).is_err()
            && let Some(blank) = self.blanks.remove(at)
        {
            // A used group may be spoilt, which says nothing of a new one.
            self.exhausted = !blank.group.is_used;
            self.abandon(blank);
        }
    }

    fn make(
        &mut self,
        groups: &Groups,
        uid_is_used: &dyn Fn(u32) -> bool,
    ) -> Result<Blank, ZoneFailure> {
        let group = self.groups.make(groups).map_err(failure(Step::Groups))?;
        let name = group.name.clone();
        // What was forked of it leaves with its socket.
        self.fork_blank(group, uid_is_used).inspect_err(|_| self.groups.discard(name))
    }

    fn fork_blank(
        &mut self,
        group: Group,
        uid_is_used: &dyn Fn(u32) -> bool,
    ) -> Result<Blank, ZoneFailure> {
        let uid = self.pick_uid(uid_is_used);
        let (socket, theirs) = protocol::pair().map_err(failure(Step::Fork))?;
        match self.fork_init().map_err(failure(Step::Fork))? {
            Forked::Child => enclosure::init(&theirs, &self.init_filter),
            Forked::Parent { pid, pidfd } => {
                // Before it gets its order: once it has changed its id, it is closed to us.
                let pid_namespace = File::open(format!("/proc/{}/ns/pid", pid.as_raw_nonzero()));
                let pid_namespace = pid_namespace.map_err(failure(Step::Fork))?.into();
                write_maps(pid, uid).map_err(failure(Step::Ids))?;
                let (preparation, waited) = (None, false);
                Ok(Blank { pid, pidfd, pid_namespace, socket, uid, group, preparation, waited })
            }
        }
    }

    /// Forks into new namespaces, and into a network one with nothing but loopback, which is up.
    fn fork_init(&mut self) -> io::Result<Forked> {
        let forked = self.networks.enter().and_then(|()| sys::fork_into(enclosure::NAMESPACES));
        // The child stays there, and has not the right to leave.
        if !matches!(forked, Ok(Forked::Child)) {
            self.networks.come_back()?;
        }
        forked
    }

    /// The outer id of the next sandbox: its own where the zone has a range, else the zone's only.
    fn pick_uid(&mut self, is_used: &dyn Fn(u32) -> bool) -> u32 {
        if !self.unique_ids {
            return 0;
        }
        loop {
            let uid = self.next_uid;
            self.next_uid = if uid >= LAST_UID { FIRST_UID } else { uid + 1 };
            if !is_used(uid) && !self.blanks.iter().any(|blank| blank.uid == uid) {
                return uid;
            }
        }
    }
}

impl Blank {
    /// Whether nothing can have happened to it or its group since they were made.
    pub(crate) fn is_new(&self) -> bool {
        !self.waited && !self.group.is_used
    }

    /// Whether it has prepared for such customers; how much they may write can still be changed.
    fn suits(&self, wished: &Preparation) -> bool {
        self.preparation
            .as_ref()
            .is_some_and(|own| own.template == wished.template && own.fail_at == wished.fail_at)
    }

    /// Limits its group and has it prepare, where that is not done yet.
    fn fit(&mut self, wish: &Wish, groups: &Groups) -> Result<(), ZoneFailure> {
        self.group.limit(groups, wish.limits).map_err(failure(Step::Groups))?;
        if self.preparation.is_none() {
            let sent = wish.preparation.send(&self.socket, &self.group.doors);
            sent.map_err(failure(Step::Fork))?;
            self.preparation = Some(wish.preparation.clone());
        }
        Ok(())
    }
}

fn failure(step: Step) -> impl Fn(io::Error) -> ZoneFailure {
    move |error| ZoneFailure::new(step.name(), &error)
}

/// Maps exactly one id: the guest's, to the sandbox's own outside.
fn write_maps(pid: Pid, uid: u32) -> io::Result<()> {
    let file = |name: &str| format!("/proc/{}/{name}", pid.as_raw_nonzero());
    let line = format!("{} {uid} 1", enclosure::GUEST_ID);
    std::fs::write(file("setgroups"), "deny")?;
    std::fs::write(file("uid_map"), &line)?;
    std::fs::write(file("gid_map"), &line)
}
