//! A sandbox's files as the host reaches them: through one way of opening, and never through a
//! link.
//!
//! The guest may rename, replace and link whatever it likes while the host looks. So nothing is
//! checked by name and then opened by name: a path is opened once, beneath a directory that was
//! pinned before the guest's first instruction, with links refused by the kernel (`beneath`), and
//! what was opened is looked at. Where a name has to be used, to make, move or remove it, it is one
//! part below an opened directory, in a call that does not follow links.
//!
//! A privileged host takes the guest's user for each step (`identity`): files it makes belong to
//! the guest, and a mistake in here could reach nothing that the guest could not.
//!
//! Every function is synchronous and may take as long as the disk does; none waits for a guest.
//! Tests: `tests/it/engine/files.rs`.

mod archive;
mod beneath;
mod changes;
mod copy;
mod duplicate;
mod error;
mod extract;
mod identity;
mod list;
mod metadata;
mod names;
mod path;
mod read;
mod stat;
mod survey;
#[cfg(test)]
mod tests;
mod tree;
mod walk;
mod watch;
mod write;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub use archive::Archived;
pub use changes::{ChangedFile, Changes, SCAN_ENTRIES_MAX, Snapshot};
pub use error::FileError;
pub use extract::Extracted;
pub use list::{Listed, Listing};
pub use metadata::Metadata;
pub use path::GuestPath;
pub(crate) use path::{PART_BYTES_MAX, PATH_BYTES_MAX};
pub use read::{Range, Reader};
pub use stat::{FileKind, FileStat, Owner};
pub use tree::{Made, Overwrite, Removal};
pub use watch::{Happening, Notice, Reach, Watch};
pub use write::{Existing, FILE_MODE_DEFAULT, Parents, WriteOptions, Writer};

use crate::tier::WritableTree;
use identity::Identity;

/// The writable places: the directory in the sandbox's file system, and where the guest sees it.
const PLACES: [(&str, &str); 3] =
    [("workspace", "/workspace"), ("home", "/home/user"), ("tmp", "/tmp")];

/// How deep a directory is followed. Each level holds a descriptor open.
pub const DEPTH_MAX: usize = 64;

/// The most entries that one listing, copy, archive or removal deals with.
pub const ENTRIES_MAX: usize = 100_000;

/// How much of a file is in memory at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// The writable files of one sandbox.
#[derive(Debug)]
pub struct Files {
    directory: OwnedFd,
    guest: Identity,
    /// The most a copy or an archive takes of the host: what the sandbox may hold. Sparse files and
    /// hard links would make more of it.
    copy_bytes_max: u64,
    /// How many inodes are in use while the guest has made nothing; `None` if something was there
    /// from the beginning, so that the number says nothing.
    inodes_when_empty: Option<u64>,
}

/// A file or directory that was opened.
#[derive(Debug)]
pub enum Opened {
    /// A regular file.
    File(File),
    /// A directory.
    Directory(OwnedFd),
}

impl Files {
    /// Takes the directory, pinned before the guest's first instruction. New files get its owner.
    pub(crate) fn new(tree: WritableTree, copy_bytes_max: u64) -> io::Result<Self> {
        let WritableTree { directory, inodes_when_empty } = tree;
        let guest = Identity::of(directory.as_fd())?;
        let mut files = Self { directory, guest, copy_bytes_max, inodes_when_empty: None };
        let (_, inodes) = files.space();
        files.inodes_when_empty = (inodes == inodes_when_empty).then_some(inodes_when_empty);
        Ok(files)
    }

    /// Returns how many bytes all files take, and how many files and directories there are.
    pub fn space(&self) -> (u64, u64) {
        rustix::fs::fstatvfs(self.as_fd()).map_or((0, 0), |space| {
            // A tmpfs counts open files without a name (O_TMPFILE) as well. `is_bare` relies on it.
            let blocks = space.f_blocks.saturating_sub(space.f_bfree);
            (blocks * space.f_frsize, space.f_files.saturating_sub(space.f_ffree))
        })
    }

    /// Opens a file or directory for reading.
    pub fn open(&self, path: &GuestPath) -> Result<Opened, FileError> {
        self.guest.act(|| beneath::open(self.as_fd(), path.inner(), path.shown()))
    }
}

impl AsFd for Files {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}
