//! The network namespaces of sandboxes: loopback and nothing else.
//!
//! Making and removing one is a tenth of the processor time of a short sandbox, and most code uses
//! no network at all. So the namespace of a sandbox that has ended may be given to another one, if
//! nothing in it shows that it was used: it has no socket, and all the kernel's counters of it are
//! those of a new one. One packet over loopback, or one failed lookup of an address, is counted,
//! and the namespace is dropped. What has no counter cannot have changed: a guest has no capability
//! over its network namespace, so addresses, routes and settings are as they were made. The one
//! exception is a namespace in which the master made sockets for the host: it has further addresses,
//! and is never put back.
//!
//! Tests: `tests/it/jail/init_pool.rs`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::Mode;

use crate::sys;
use crate::zone::init_pool::IDLE_MAX;

/// The most spare namespaces; the pool of inits could not use more of them soon.
const SPARE_MAX: usize = IDLE_MAX;

/// The files below [`NET`] that must not have changed: packets and errors of every protocol and of
/// the interface.
const COUNTERS: [&str; 3] = ["snmp", "netstat", "dev"];

/// Those of IPv6, on a kernel that has it, and the flow labels, which outlive their socket.
const COUNTERS_IPV6: [&str; 2] = ["snmp6", "ip6_flowlabel"];

/// Of the calling thread: /proc/self would be the namespace of the process's first thread.
const NET: &str = "/proc/thread-self/net";

/// The first line of `sockstat` in a namespace without sockets. It also counts those that belong to
/// no process any more, such as one that was sent over another socket and never received.
const NO_SOCKETS: &[u8] = b"sockets: used 0\n";

/// The files below [`NET`] that show numbers of the whole machine in every namespace: sockets and
/// their memory, packets of each processor. `stat` is a directory.
const MACHINE_WIDE: [&str; 6] =
    ["sockstat", "sockstat6", "protocols", "softnet_stat", "rt_acct", "stat"];

/// The usual length of all these files together; longer ones only make the buffer grow.
const COUNTERS_BYTES: usize = 32 << 10;

/// The most that the kernel returns in one read of a file in /proc.
const PAGE: usize = 4096;

/// The contents of the files, one after the other.
type Counters = Vec<u8>;

/// The zone's own network namespace, and those that may be used again.
#[derive(Debug)]
pub(crate) struct Networks {
    own: OwnedFd,
    spare: Vec<OwnedFd>,
    /// The counters of a new namespace; `None` until one was made, or if they cannot be read.
    new: Option<Counters>,
}

impl Networks {
    /// Opens the namespace of the calling thread, to return to.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { own: File::open("/proc/self/ns/net")?.into(), spare: Vec::new(), new: None })
    }

    /// Moves the calling thread into a namespace that is new or like new. After an error the thread
    /// may be in any namespace until [`Networks::leave`].
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        while let Some(spare) = self.spare.pop() {
            if sys::setns(spare.as_fd(), libc::CLONE_NEWNET).is_ok() && self.is_like_new() {
                return Ok(());
            }
        }
        sys::unshare(libc::CLONE_NEWNET)?;
        sys::loopback_up()?;
        hide_machine()?;
        if self.new.is_none() {
            // Without these counters to compare with, no namespace is used again.
            self.new = counters().ok();
        }
        Ok(())
    }

    /// Moves the calling thread back into the zone's own namespace.
    pub(crate) fn leave(&self) -> io::Result<()> {
        sys::setns(self.own.as_fd(), libc::CLONE_NEWNET)
    }

    /// Calls `work` with the calling thread in a namespace, and returns to the zone's own. The outer
    /// error means that the thread did not come back; the zone must end then, because whatever it
    /// does next would happen in a guest's network.
    pub(crate) fn within<T>(
        &self,
        network: BorrowedFd<'_>,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<io::Result<T>> {
        let done = sys::setns(network, libc::CLONE_NEWNET).and_then(|()| work());
        self.leave()?;
        Ok(done)
    }

    /// Keeps the namespace of an ended sandbox. Whether it can be used again is checked when it is
    /// needed.
    pub(crate) fn put_back(&mut self, network: OwnedFd) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(network);
        }
    }

    pub(crate) fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Lets the kernel remove all spare namespaces.
    pub(crate) fn drop_spare(&mut self) {
        self.spare.clear();
    }

    /// Whether the calling thread's namespace differs in nothing from a new one.
    fn is_like_new(&self) -> bool {
        let mut sockets = Vec::with_capacity(COUNTERS_BYTES);
        let empty = append("sockstat", &mut sockets).is_ok() && sockets.starts_with(NO_SOCKETS);
        empty && self.new.is_some() && counters().ok() == self.new
    }
}

/// Closes the files with numbers of the whole machine to all but the zone's own user, who owns the
/// namespace and its files. In a zone with a single user the guest is that user and could open them
/// again.
fn hide_machine() -> io::Result<()> {
    for file in MACHINE_WIDE {
        match rustix::fs::chmod(format!("{NET}/{file}"), Mode::from_raw_mode(0o400)) {
            // The kernel was built without it.
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn counters() -> io::Result<Counters> {
    let mut counters = Vec::with_capacity(COUNTERS_BYTES);
    for file in COUNTERS {
        append(file, &mut counters)?;
    }
    for file in COUNTERS_IPV6 {
        match append(file, &mut counters) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(counters)
}

/// Appends the contents of a file below [`NET`].
fn append(file: &str, contents: &mut Vec<u8>) -> io::Result<()> {
    let file = File::open(format!("{NET}/{file}"))?;
    loop {
        contents.reserve(PAGE);
        if rustix::io::read(&file, rustix::buffer::spare_capacity(contents))? == 0 {
            return Ok(());
        }
    }
}
