//! What a file's owner says about it: short texts that stay with the file, as extended attributes.
//!
//! The guest sees them and can change them, so what is read is hostile and bounded like all else.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::{FileError, Files, GuestPath, Writer, beneath};

/// How the names of the attributes begin: as in a sandbox of E2B, so that programs written for one find
/// them, and can set them.
const PREFIX: &str = "user.e2b.";

/// The most pairs of one file, and the most bytes of all of them together.
const PAIRS_MAX: usize = 32;
const BYTES_MAX: usize = 4096;

/// The longest list of names the kernel gives.
// XATTR_LIST_MAX (xattr(7)).
const NAMES_BYTES_MAX: usize = 64 * 1024;

/// Names and what is said under them.
pub type Metadata = BTreeMap<String, String>;

impl Files {
    /// Returns what is said about a file or directory; of a link, nothing.
    pub fn metadata(&self, path: &GuestPath) -> Result<Metadata, FileError> {
        self.guest.act(|| {
            let held = beneath::hold(self.as_fd(), path)?;
            Ok(read(&own_path(held.as_fd())))
        })
    }
}

impl Writer {
    /// Stores metadata with the file that is being written.
    pub fn describe(&self, metadata: &Metadata) -> Result<(), FileError> {
        let refused = |reason| FileError::Metadata { path: self.shown().to_owned(), reason };
        let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        if metadata.len() > PAIRS_MAX || bytes > BYTES_MAX {
            return Err(refused("there is too much of it"));
        }
        if metadata.keys().any(|name| name.is_empty() || name.contains('\0')) {
            return Err(refused("a name is empty or holds a NUL"));
        }
        for (name, value) in metadata {
            self.as_guest(|file| set(file, name, value)).map_err(|errno| match errno {
                // tmpfs keeps attributes of users since Linux 6.6.
                Errno::NOTSUP => refused("this host's kernel keeps none for such files"),
                Errno::NAMETOOLONG | Errno::RANGE => refused("a name is too long"),
                Errno::NOSPC => FileError::DiskFull(self.shown().to_owned()),
                errno => FileError::of("describe", self.shown(), errno),
            })?;
        }
        Ok(())
    }
}

fn set(file: &File, name: &str, value: &str) -> rustix::io::Result<()> {
    let name = format!("{PREFIX}{name}");
    rustix::fs::fsetxattr(file, name, value.as_bytes(), XattrFlags::empty())
}

/// Returns a held descriptor as a path: with O_PATH, fgetxattr(2) answers EBADF.
pub(super) fn own_path(held: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", held.as_raw_fd())
}

/// Reads what is there and readable; nothing where attributes are not kept.
fn read(path: &str) -> Metadata {
    let mut names = vec![0; NAMES_BYTES_MAX];
    let length = rustix::fs::listxattr(path, names.as_mut_slice()).unwrap_or(0);
    let ours = names[..length].split(|byte| *byte == 0).filter_map(|name| {
        let name = std::str::from_utf8(name).ok()?;
        Some((name, name.strip_prefix(PREFIX)?))
    });
    let mut metadata = Metadata::new();
    let mut left = BYTES_MAX;
    for (full, name) in ours.take(PAIRS_MAX) {
        let mut value = vec![0; left];
        // A value that is longer than the room left is ERANGE, and left out like one that has gone.
        let Ok(length) = rustix::fs::getxattr(path, full, value.as_mut_slice()) else { continue };
        value.truncate(length);
        let Some(rest) = left.checked_sub(length + name.len()) else { break };
        left = rest;
        metadata.insert(name.to_owned(), String::from_utf8_lossy(&value).into_owned());
    }
    metadata
}
