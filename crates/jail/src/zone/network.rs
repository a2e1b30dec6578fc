//! Network namespaces for sandboxes: loopback, nothing else, and nothing of anybody.
//!
//! To make one and to take it down is a tenth of all that the machine does for a short sandbox, and most
//! code opens no socket that is ever heard of. So the namespace of a sandbox that has ended may be given
//! to the next one, if nothing in it tells that it was: no socket is left in it, and of all that the
//! kernel counts for a network namespace nothing has been counted. One packet over loopback, or one
//! address that was looked for in vain, and it goes. What cannot be counted cannot have changed: a guest
//! has no right over its namespace, so addresses, routes and settings are as they were made.
//! Tests: `tests/it/jail/stock.rs`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::sys;
use crate::zone::stock::STOCK;

/// How many are kept at most; more than the stock holds could never be used soon.
const SPARE_MAX: usize = STOCK;

/// What the kernel tells of the calling thread's network namespace: packets and errors of every
/// protocol and of the interface.
const COUNTED: [&str; 3] = ["snmp", "netstat", "dev"];

/// The same of IPv6, where the kernel has it, with labels of flows, which outlive their socket.
const COUNTED_OF_IPV6: [&str; 2] = ["snmp6", "ip6_flowlabel"];

/// Where it tells; of this thread, and not of the process's first one.
const TOLD: &str = "/proc/thread-self/net";

/// How `sockstat` begins in a namespace in which there is no socket of any kind, not even one that its last
/// process has left on its way to another.
const NO_SOCKETS: &[u8] = b"sockets: used 0\n";

/// More than the kernel says in all of these files; what does not fit is read all the same, more slowly.
const TOLD_BYTES: usize = 32 << 10;

/// The kernel tells at most so much at a time.
const PAGE: usize = 4096;

/// What the kernel tells of one, file after file.
type Counts = Vec<u8>;

/// The zone's own network namespace, and those that may be used again.
#[derive(Debug)]
pub(crate) struct Networks {
    own: OwnedFd,
    spare: Vec<OwnedFd>,
    /// What is counted in a new one.
    new: Option<Counts>,
}

impl Networks {
    /// Remembers the one that the calling thread is in, to return to.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { own: File::open("/proc/self/ns/net")?.into(), spare: Vec::new(), new: None })
    }

    /// Takes the calling thread into one that is new, or cannot be told from it. It may be anywhere
    /// after an error, until it has come back.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        while let Some(spare) = self.spare.pop() {
            if sys::setns(spare.as_fd(), libc::CLONE_NEWNET).is_ok() && self.is_like_new() {
                return Ok(());
            }
        }
        sys::unshare(libc::CLONE_NEWNET)?;
        sys::loopback_up()?;
        if self.new.is_none() {
            // A kernel that does not tell is one on which none is used again.
            self.new = counts().ok();
        }
        Ok(())
    }

    /// Takes the calling thread back to the zone's own.
    pub(crate) fn come_back(&self) -> io::Result<()> {
        sys::setns(self.own.as_fd(), libc::CLONE_NEWNET)
    }

    /// Takes one back whose sandbox has ended. It is looked at when it is wanted again.
    pub(crate) fn take_back(&mut self, network: OwnedFd) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(network);
        }
    }

    /// Whether there are any to be used again.
    pub(crate) fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Gives up those that nobody has wanted.
    pub(crate) fn forget_spare(&mut self) {
        self.spare.clear();
    }

    /// Whether the calling thread's cannot be told from a new one.
    fn is_like_new(&self) -> bool {
        let mut sockets = Vec::with_capacity(TOLD_BYTES);
        let empty = tell("sockstat", &mut sockets).is_ok() && sockets.starts_with(NO_SOCKETS);
        empty && self.new.is_some() && counts().ok() == self.new
    }
}

fn counts() -> io::Result<Counts> {
    let mut counts = Vec::with_capacity(TOLD_BYTES);
    for file in COUNTED {
        tell(file, &mut counts)?;
    }
    for file in COUNTED_OF_IPV6 {
        match tell(file, &mut counts) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(counts)
}

/// Adds what a file says.
fn tell(file: &str, told: &mut Vec<u8>) -> io::Result<()> {
    let file = File::open(format!("{TOLD}/{file}"))?;
    loop {
        told.reserve(PAGE);
        if rustix::io::read(&file, rustix::buffer::spare_capacity(told))? == 0 {
            return Ok(());
        }
    }
}
