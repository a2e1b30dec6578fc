//! The groups of sandboxes: the limits and the counters of one sandbox, in every hierarchy.
//!
//! On a kernel with a hierarchy for each controller, making and removing a group is a twelfth of
//! the processor time of a short sandbox, so a group may serve again. A group keeps two things of a
//! sandbox that has ended: the kernel's counters, and memory that is still charged to it. It is
//! used again only if no process is in it, if almost no memory is charged to it and if its counters
//! can be reset; its limits are set anew. On a kernel that does not report all of that, each
//! sandbox has a new group.
//!
//! Tests: `tests/it/jail/init_pool.rs`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use crate::cgroup::{CPU_WEIGHT_DEFAULT, GroupLimits, GroupShare, Groups, Meter};
use crate::zone::init_pool::IDLE_MAX;

/// The most spare groups; the pool of inits could not use more of them soon.
const SPARE_MAX: usize = IDLE_MAX;

/// A group, its open `cgroup.procs` files and its meter.
#[derive(Debug)]
pub(crate) struct SandboxGroup {
    pub(crate) name: String,
    /// `cgroup.procs` of each hierarchy: a process that writes to them moves into the group.
    pub(crate) procs_fds: Vec<OwnedFd>,
    pub(crate) meter: Meter,
    /// The limits in force; `None` until they are set.
    limits: Option<GroupLimits>,
    /// The share of the processors in force; `None` for the one that a new group has.
    share: Option<GroupShare>,
    /// Whether another sandbox had it before.
    pub(crate) is_used: bool,
}

impl SandboxGroup {
    fn new(groups: &Groups, name: String) -> io::Result<Self> {
        let make = || {
            groups.create(&name)?;
            Ok((groups.procs_fds(&name)?, groups.meter(&name)?))
        };
        match make() {
            Ok((procs_fds, meter)) => {
                Ok(Self { name, procs_fds, meter, limits: None, share: None, is_used: false })
            }
            Err(error) => {
                // No process is in what was made of it. If it cannot be removed now, it is removed
                // with the zone.
                let _ = groups.remove(&name);
                Err(error)
            }
        }
    }

    /// Sets its limits, unless they are in force already.
    pub(crate) fn limit(&mut self, groups: &Groups, limits: GroupLimits) -> io::Result<()> {
        if self.limits != Some(limits) {
            groups.limit(&self.name, &limits)?;
            self.limits = Some(limits);
        }
        Ok(())
    }

    /// Changes its share of the processors.
    pub(crate) fn share(&mut self, groups: &Groups, share: GroupShare) -> io::Result<()> {
        if self.share != Some(share) {
            // Forgotten first: after an error it is unknown which one is in force.
            self.share = Some(share);
            groups.share(&self.name, share)?;
        }
        Ok(())
    }

    /// Takes back a change of its share. Processes that are killed must run to exit, which takes
    /// long with a small one.
    pub(crate) fn reset_share(&mut self, groups: &Groups) -> io::Result<()> {
        let (Some(_), Some(limits)) = (self.share, self.limits) else { return Ok(()) };
        groups.share(
            &self.name,
            GroupShare { weight: CPU_WEIGHT_DEFAULT, cpu_millis: limits.cpu_millis },
        )?;
        self.share = None;
        Ok(())
    }

    /// Resets it for another sandbox; false if it cannot be used again.
    fn start_over(&mut self, groups: &Groups) -> bool {
        // Forgotten, so that they are written again: that also makes the kernel forget how much of
        // its processor time the group has used up in the current period.
        self.limits = None;
        self.is_used = true;
        self.share.is_none()
            && groups.is_vacant(&self.name)
            && groups.has_little_charged(&self.name)
            && self.meter.start_over()
    }
}

/// Makes groups, from spare ones where it can.
#[derive(Debug, Default)]
pub(crate) struct GroupStore {
    next: u64,
    spare: VecDeque<SandboxGroup>,
    /// Groups to be removed as soon as they are empty.
    unwanted: Vec<String>,
}

impl GroupStore {
    /// Returns a new group, or one that has been reset. Of the spare groups the one that has waited
    /// longest comes first, since the kernel has had most time to uncharge its memory.
    pub(crate) fn make(&mut self, groups: &Groups) -> io::Result<SandboxGroup> {
        while let Some(mut spare) = self.spare.pop_front() {
            if spare.start_over(groups) {
                return Ok(spare);
            }
            self.discard(spare.name);
        }
        let name = format!("s{}", self.next);
        self.next += 1;
        SandboxGroup::new(groups, name)
    }

    /// Keeps the group of an ended sandbox. No process may be in it or able to join it, and the
    /// engine must have stopped reading its meter. Whether it can be used again is checked when it
    /// is needed.
    pub(crate) fn put_back(&mut self, group: SandboxGroup) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push_back(group);
        } else {
            self.discard(group.name);
        }
    }

    /// Lets a group be removed.
    pub(crate) fn discard(&mut self, name: String) {
        self.unwanted.push(name);
    }

    pub(crate) fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Lets all spare groups be removed.
    pub(crate) fn drop_spare(&mut self) {
        self.unwanted.extend(self.spare.drain(..).map(|group| group.name));
    }

    /// Takes the names of the groups to remove once they are empty.
    pub(crate) fn take_unwanted(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unwanted)
    }
}
