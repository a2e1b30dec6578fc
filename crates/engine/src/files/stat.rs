//! The kind, size, mode, time and owner of an entry, found without opening it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Stat};
use rustix::path::Arg;

use super::identity::Identity;
use super::{FileError, Files, GuestPath, beneath};

/// How much of a link's text is shown: Linux's own bound of a path.
const TARGET_BYTES_MAX: usize = 4096;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which the host never follows.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

/// The owner of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The sandbox's user.
    User,
    /// Another user, whom the guest sees as `nobody`.
    Nobody,
}

/// What the kernel says about an entry in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStat {
    pub kind: FileKind,
    /// Its size in bytes; of a link, the length of its text.
    pub size: u64,
    /// Its permission bits, with those above them (set-user-id and the like).
    pub mode: u32,
    /// When it was last changed; the guest can set any time.
    pub modified: SystemTime,
    /// Whose it is.
    pub owner: Owner,
    /// The text of a symbolic link, made readable where it is none.
    pub target: Option<String>,
}

impl Files {
    /// Says what a path names; of a link, the link itself.
    pub fn stat(&self, path: &GuestPath) -> Result<FileStat, FileError> {
        let held = self.guest.act(|| beneath::hold(self.as_fd(), path))?;
        let stat = rustix::fs::fstat(&held)
            .map_err(|errno| FileError::of("look at", path.shown(), errno))?;
        let mut found = FileStat::of(&stat, self.guest);
        if found.kind == FileKind::Symlink {
            // With an empty name readlinkat(2) reads the link that the descriptor holds, and not
            // what has its name by now.
            found.target = link_text(held.as_fd(), "");
        }
        Ok(found)
    }

    /// Returns whether a path names anything, a link included. A link on the way is an error, as
    /// everywhere.
    pub fn exists(&self, path: &GuestPath) -> Result<bool, FileError> {
        match self.stat(path) {
            Ok(_) => Ok(true),
            Err(FileError::Missing(_) | FileError::NotDirectory(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl FileStat {
    /// Converts what the kernel says; without the text of a link.
    pub(super) fn of(stat: &Stat, guest: Identity) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Symlink,
            _ => FileKind::Other,
        };
        let owner = if guest.owns(stat.st_uid) { Owner::User } else { Owner::Nobody };
        Self {
            kind,
            size: stat.st_size as u64,
            mode: stat.st_mode & 0o7777,
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            owner,
            target: None,
        }
    }
}

impl Owner {
    /// Returns the name that the guest knows.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Nobody => "nobody",
        }
    }
}

/// Returns the text of a link; `None` if it is none any more.
pub(super) fn link_text(directory: BorrowedFd<'_>, name: impl Arg) -> Option<String> {
    let mut text = vec![0; TARGET_BYTES_MAX];
    let length = rustix::fs::readlinkat_raw(directory, name, text.as_mut_slice()).ok()?;
    Some(String::from_utf8_lossy(&text[..length]).into_owned())
}

/// Converts a time that the guest may have set: any number of seconds, before 1970 too.
pub(super) fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    time.and_then(|time| time.checked_add(Duration::from_nanos(nanoseconds)))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
