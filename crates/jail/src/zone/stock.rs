//! What shells need and what takes long to make, kept in stock: blank inits and groups.
//!
//! A blank is an init that was forked into namespaces of its own and waits to be told what to become.
//! It has seen nothing of any sandbox and is the same for all, so it can be made ahead; one that was
//! given out is never taken back. The same holds for the directories of a sandbox's groups.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::Pid;

use crate::cgroup::{GroupLimits, Groups, Meter};
use crate::protocol::{self, Failure};
use crate::shell::{self, Step};
use crate::sys::{self, Forked};

/// How many of each are kept.
const STOCK: usize = 16;

/// Ids handed out inside the zone: 0 is the zone's own, the top is the kernel's "nobody".
const FIRST_UID: u32 = 1;
const LAST_UID: u32 = 65_000;

/// An init that waits for its order; it leaves when its socket closes.
#[derive(Debug)]
pub(crate) struct Blank {
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) pid_namespace: OwnedFd,
    pub(crate) socket: OwnedFd,
    /// The id it has outside, in the zone.
    pub(crate) uid: u32,
}

/// An empty group, with the doors into it open, and its meter.
#[derive(Debug)]
pub(crate) struct StockGroup {
    pub(crate) name: String,
    pub(crate) doors: Vec<OwnedFd>,
    pub(crate) meter: Meter,
    /// What it was limited to when it was made.
    limits: Option<GroupLimits>,
}

/// Things made ahead.
#[derive(Debug)]
pub(crate) struct Stock {
    own_network: OwnedFd,
    unique_ids: bool,
    next_uid: u32,
    blanks: VecDeque<Blank>,
    groups: VecDeque<StockGroup>,
    next_group: u64,
    /// What the last customer wanted: the next is likely to want the same.
    usual_limits: Option<GroupLimits>,
    exhausted: bool,
    customers: u64,
}

impl Stock {
    /// An empty stock; remembers the zone's own network namespace to return to.
    pub(crate) fn new(unique_ids: bool) -> io::Result<Self> {
        Ok(Self {
            own_network: open_network()?,
            unique_ids,
            next_uid: FIRST_UID,
            blanks: VecDeque::new(),
            groups: VecDeque::new(),
            next_group: 0,
            usual_limits: None,
            exhausted: false,
            customers: 0,
        })
    }

    /// A blank init; `uid_is_used` tells which ids living sandboxes have.
    pub(crate) fn blank(&mut self, uid_is_used: &dyn Fn(u32) -> bool) -> Result<Blank, Failure> {
        self.customers += 1;
        match self.blanks.pop_front() {
            Some(blank) => Ok(blank),
            None => self.make_blank(uid_is_used).inspect(|_| self.exhausted = false),
        }
    }

    /// Whether one stands ready.
    pub(crate) fn has_blank(&self) -> bool {
        !self.blanks.is_empty()
    }

    /// An empty group. Whether it is limited to what its customer wants is for `limit` to see to.
    pub(crate) fn group(&mut self, groups: &Groups) -> io::Result<StockGroup> {
        match self.groups.pop_front() {
            Some(group) => Ok(group),
            None => self.make_group(groups),
        }
    }

    /// Limits a group that came from here.
    pub(crate) fn limit(
        &mut self,
        groups: &Groups,
        group: &StockGroup,
        limits: GroupLimits,
    ) -> io::Result<()> {
        self.usual_limits = Some(limits);
        if group.limits == Some(limits) { Ok(()) } else { groups.limit(&group.name, &limits) }
    }

    /// A blank has ended by itself, or was killed from outside.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.blanks.retain(|blank| blank.pid != pid);
    }

    /// Gives up the blanks: the zone's mounts, of which each has a copy, are about to change.
    pub(crate) fn discard_blanks(&mut self) {
        self.blanks.clear();
    }

    /// Whether something is missing and can be made. A zone that has had one customer, as that of a
    /// single run, makes nothing ahead.
    pub(crate) fn is_low(&self) -> bool {
        !self.exhausted
            && self.customers > 1
            && (self.blanks.len() < STOCK || self.groups.len() < STOCK)
    }

    /// Makes one thing that is missing, of what there is less of. After a failure nothing is made
    /// ahead any more: the failure shows again, and is told, when the thing is needed.
    pub(crate) fn replenish(&mut self, groups: &Groups, uid_is_used: &dyn Fn(u32) -> bool) {
        self.exhausted = if self.blanks.len() <= self.groups.len() {
            self.make_blank(uid_is_used).map(|blank| self.blanks.push_back(blank)).is_err()
        } else {
            self.make_group(groups).map(|group| self.groups.push_back(group)).is_err()
        };
    }

    fn make_group(&mut self, groups: &Groups) -> io::Result<StockGroup> {
        let name = format!("s{}", self.next_group);
        self.next_group += 1;
        let make = || {
            groups.create(&name)?;
            if let Some(limits) = &self.usual_limits {
                groups.limit(&name, limits)?;
            }
            Ok((groups.doors(&name)?, groups.meter(&name)?))
        };
        match make() {
            Ok((doors, meter)) => Ok(StockGroup { name, doors, meter, limits: self.usual_limits }),
            Err(error) => {
                // What was made of it is empty; a leftover is cleared with the zone.
                let _ = groups.remove(&name);
                Err(error)
            }
        }
    }

    fn make_blank(&mut self, uid_is_used: &dyn Fn(u32) -> bool) -> Result<Blank, Failure> {
        let failure = |step: Step| move |error: io::Error| Failure::new(step.name(), &error);
        let uid = self.pick_uid(uid_is_used);
        let (ours, theirs) = protocol::pair().map_err(failure(Step::Fork))?;
        match self.fork_init().map_err(failure(Step::Fork))? {
            Forked::Child => shell::init(&theirs),
            Forked::Parent { pid, pidfd } => {
                // Before it gets its order: once it has changed its id, it is closed to us.
                let pid_namespace = File::open(format!("/proc/{}/ns/pid", pid.as_raw_nonzero()));
                let pid_namespace = pid_namespace.map_err(failure(Step::Fork))?.into();
                write_maps(pid, uid).map_err(failure(Step::Ids))?;
                Ok(Blank { pid, pidfd, pid_namespace, socket: ours, uid })
            }
        }
    }

    /// Forks into new namespaces, the network one with nothing but loopback, which is up.
    fn fork_init(&self) -> io::Result<Forked> {
        sys::unshare(libc::CLONE_NEWNET)?;
        let forked = sys::loopback_up().and_then(|()| sys::fork_into(shell::NAMESPACES));
        // The child stays there, and has not the right to leave.
        if !matches!(forked, Ok(Forked::Child)) {
            sys::setns(self.own_network.as_fd(), libc::CLONE_NEWNET)?;
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

/// Maps exactly one id: the guest's, to the sandbox's own outside.
fn write_maps(pid: Pid, uid: u32) -> io::Result<()> {
    let file = |name: &str| format!("/proc/{}/{name}", pid.as_raw_nonzero());
    let line = format!("{} {uid} 1", shell::GUEST_ID);
    std::fs::write(file("setgroups"), "deny")?;
    std::fs::write(file("uid_map"), &line)?;
    std::fs::write(file("gid_map"), &line)
}

fn open_network() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/self/ns/net")?.into())
}
