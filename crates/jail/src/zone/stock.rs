//! What shells need and what takes long to make, kept in stock: network namespaces and groups.
//!
//! A network namespace takes as long as all the rest of a shell. It is empty and the same for all
//! until a sandbox has had it, so it can be made ahead; one that was used is never used again. The
//! same holds for the directories of a sandbox's groups.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::cgroup::Groups;
use crate::sys::{self, Forked};

/// How many of each are kept.
const STOCK: usize = 16;

/// Things made ahead.
#[derive(Debug)]
pub(crate) struct Stock {
    own_network: OwnedFd,
    networks: VecDeque<OwnedFd>,
    groups: VecDeque<String>,
    next_group: u64,
    exhausted: bool,
    customers: u64,
}

impl Stock {
    /// An empty stock; remembers the zone's own network namespace to return to.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            own_network: open_network()?,
            networks: VecDeque::new(),
            groups: VecDeque::new(),
            next_group: 0,
            exhausted: false,
            customers: 0,
        })
    }

    /// A network namespace with nothing but loopback, which is up.
    pub(crate) fn network(&mut self) -> io::Result<OwnedFd> {
        self.customers += 1;
        match self.networks.pop_front() {
            Some(network) => Ok(network),
            None => self.make_network().inspect(|_| self.exhausted = false),
        }
    }

    /// The name of an empty group without limits.
    pub(crate) fn group(&mut self, groups: &Groups) -> io::Result<String> {
        match self.groups.pop_front() {
            Some(group) => Ok(group),
            None => self.make_group(groups),
        }
    }

    /// Whether something is missing and can be made. A zone that has had one customer, as that of a
    /// single run, makes nothing ahead.
    pub(crate) fn is_low(&self) -> bool {
        !self.exhausted
            && self.customers > 1
            && (self.networks.len() < STOCK || self.groups.len() < STOCK)
    }

    /// Makes one thing that is missing. After a failure nothing is made ahead any more: the failure
    /// shows again, and is told, when the thing is needed.
    pub(crate) fn replenish(&mut self, groups: &Groups) {
        let made = if self.networks.len() < STOCK {
            self.make_network().map(|network| self.networks.push_back(network))
        } else {
            self.make_group(groups).map(|group| self.groups.push_back(group))
        };
        self.exhausted = made.is_err();
    }

    fn make_network(&self) -> io::Result<OwnedFd> {
        sys::unshare(libc::CLONE_NEWNET)?;
        let network = sys::loopback_up().and_then(|()| open_network());
        sys::setns(self.own_network.as_fd(), libc::CLONE_NEWNET)?;
        network
    }

    fn make_group(&mut self, groups: &Groups) -> io::Result<String> {
        let name = format!("s{}", self.next_group);
        self.next_group += 1;
        groups.create(&name).inspect_err(|_| {
            // What was made of it is empty; a leftover is cleared with the zone.
            let _ = groups.remove(&name);
        })?;
        Ok(name)
    }

    /// Forks into new namespaces and the given network namespace.
    pub(crate) fn fork_within(&self, network: &OwnedFd, namespaces: u64) -> io::Result<Forked> {
        sys::setns(network.as_fd(), libc::CLONE_NEWNET)?;
        let forked = sys::fork_into(namespaces);
        // The child stays there, and has not the right to leave.
        if !matches!(forked, Ok(Forked::Child)) {
            sys::setns(self.own_network.as_fd(), libc::CLONE_NEWNET)?;
        }
        forked
    }
}

fn open_network() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/self/ns/net")?.into())
}
