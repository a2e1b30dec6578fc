//! Groups for sandboxes: the limits and the counters of one sandbox, in every hierarchy.
//!
//! To make one and to take it down is a twelfth of all that the machine does for a short sandbox, where the
//! kernel has a hierarchy for each controller. What a group keeps of a sandbox that has ended is what the
//! kernel has counted, and memory that is still charged to it. So it may be given to the next one if no process
//! is in it, if next to nothing is charged, and if its counters can start over; its limits are set anew. Where the
//! kernel does not tell all of that, each sandbox has a new one.
//! Tests: `tests/it/jail/stock.rs`.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use crate::cgroup::{GroupLimits, Groups, Meter};
use crate::zone::stock::STOCK;

/// How many are kept at most; more than the stock holds could never be used soon.
const SPARE_MAX: usize = STOCK;

/// A group, with the doors into it open, and its meter.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) doors: Vec<OwnedFd>,
    pub(crate) meter: Meter,
    /// What it is limited to, if anything yet.
    limits: Option<GroupLimits>,
    /// Whether another sandbox had it before.
    pub(crate) is_used: bool,
}

impl Group {
    fn new(groups: &Groups, name: String) -> io::Result<Self> {
        let make = || {
            groups.create(&name)?;
            Ok((groups.doors(&name)?, groups.meter(&name)?))
        };
        match make() {
            Ok((doors, meter)) => Ok(Self { name, doors, meter, limits: None, is_used: false }),
            Err(error) => {
                // What was made of it is empty; a leftover is cleared with the zone.
                let _ = groups.remove(&name);
                Err(error)
            }
        }
    }

    /// Sets its limits, where they are not what they should be.
    pub(crate) fn limit(&mut self, groups: &Groups, limits: GroupLimits) -> io::Result<()> {
        if self.limits != Some(limits) {
            groups.limit(&self.name, &limits)?;
            self.limits = Some(limits);
        }
        Ok(())
    }

    /// Makes it as good as new; false if it cannot be. Limits that are set once more let the kernel forget
    /// how much of the processor was used up last.
    fn start_over(&mut self, groups: &Groups) -> bool {
        (self.limits, self.is_used) = (None, true);
        groups.is_vacant(&self.name) && groups.is_paid(&self.name) && self.meter.start_over()
    }
}

/// Makes groups, out of those that are spare if it can.
#[derive(Debug, Default)]
pub(crate) struct GroupStore {
    next: u64,
    spare: VecDeque<Group>,
    /// Those that nobody wants any more; they can go as soon as they are empty.
    unwanted: Vec<String>,
}

impl GroupStore {
    /// One that is new, or cannot be told from it. The one that has waited longest comes first, since the kernel
    /// has had most time to clear it.
    pub(crate) fn make(&mut self, groups: &Groups) -> io::Result<Group> {
        while let Some(mut spare) = self.spare.pop_front() {
            if spare.start_over(groups) {
                return Ok(spare);
            }
            self.discard(spare.name);
        }
        let name = format!("s{}", self.next);
        self.next += 1;
        Group::new(groups, name)
    }

    /// Takes one back that is vacant, that nobody can enter and that nobody reads any more. It is looked at when
    /// it is wanted again.
    pub(crate) fn take_back(&mut self, group: Group) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push_back(group);
        } else {
            self.discard(group.name);
        }
    }

    /// Gives one up for good.
    pub(crate) fn discard(&mut self, name: String) {
        self.unwanted.push(name);
    }

    /// Whether there are any to be used again.
    pub(crate) fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Gives up those that nobody has wanted.
    pub(crate) fn forget_spare(&mut self) {
        self.unwanted.extend(self.spare.drain(..).map(|group| group.name));
    }

    /// The names of groups to remove once they are empty.
    pub(crate) fn unwanted(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unwanted)
    }
}
