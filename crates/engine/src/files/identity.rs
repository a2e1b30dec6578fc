//! Acting as the guest's user, for one step at a time.
//!
//! A privileged host needs it: the sandbox's file system belongs to a user namespace that knows one
//! id, and the kernel makes nothing there for an id it does not know (`EOVERFLOW`). It is also the
//! right thing to do. With the guest's id and without capabilities, whatever goes wrong in here can
//! touch nothing that the guest could not touch by itself.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::FileError;

/// The user to whom the files of a sandbox belong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    uid: Uid,
    gid: Gid,
}

impl Identity {
    /// Returns the owner of a directory.
    pub(super) fn of(directory: BorrowedFd<'_>) -> io::Result<Self> {
        let stat = rustix::fs::fstat(directory)?;
        Ok(Self { uid: Uid::from_raw(stat.st_uid), gid: Gid::from_raw(stat.st_gid) })
    }

    /// Returns whether a file belongs to this user.
    pub(super) fn owns(self, uid: u32) -> bool {
        self.uid.as_raw() == uid
    }

    /// Does some work with the guest's rights. Must not be given work that touches the host's files
    /// or calls what a caller handed in.
    pub(super) fn act<T>(
        self,
        work: impl FnOnce() -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        // A process that is not root is the guest's user already, or cannot become it.
        if !rustix::process::geteuid().is_root() || self.uid.is_root() {
            return work();
        }
        let _back = Taken::take(self).map_err(|errno| FileError::System {
            doing: "act as the owner of",
            path: "files".to_owned(),
            source: errno.into(),
        })?;
        work()
    }
}

/// The thread's effective ids are the guest's, and it is in no other group, until this is dropped.
/// All that is the thread's alone: these are the kernel's calls and not the C library's, which
/// change the whole process.
struct Taken {
    gid: Gid,
    groups: Vec<Gid>,
}

impl Taken {
    fn take(guest: Identity) -> rustix::io::Result<Self> {
        // The groups first: without root's id there is no right left to change them.
        let taken = Self { gid: rustix::process::getegid(), groups: rustix::process::getgroups()? };
        // From here on an early return gives back what was taken: `taken` is dropped.
        if !taken.groups.is_empty() {
            set_thread_groups(&[])?;
        }
        set_thread_res_gid(None, guest.gid, None)?;
        // The real and the saved id stay root's, so that the effective one can be taken back. With
        // an effective id other than 0 the kernel clears the effective capabilities
        // (capabilities(7)).
        set_thread_res_uid(None, guest.uid, None)?;
        Ok(taken)
    }

    fn give_back(&self) -> rustix::io::Result<()> {
        // The id first: it brings back the capabilities that the other two calls need.
        set_thread_res_uid(None, Uid::ROOT, None)?;
        set_thread_res_gid(None, self.gid, None)?;
        if !self.groups.is_empty() {
            set_thread_groups(&self.groups)?;
        }
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // A thread that went on as the guest would fail later in unrelated work. It ends here
        // instead.
        self.give_back().expect("root is still the thread's real id, and may have its rights back");
    }
}
