//! Why something about a sandbox's files was refused or failed, in terms a caller can act on.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use super::{DEPTH_MAX, ENTRIES_MAX};

/// Why a guest path or file is refused.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not a path that can name a writable file.
    #[error("{0:?} is not a path below /workspace, /home/user or /tmp")]
    Outside(String),
    /// One of the writable places itself, which stays where it is.
    #[error("{0} is a fixed place of the sandbox and cannot be replaced, moved or removed")]
    Place(String),
    /// Nothing is there, or a directory on the way is not.
    #[error("cannot open {0} in the sandbox: there is no such file or directory")]
    Missing(String),
    /// A link, or the border to another file system, is in the way.
    #[error("cannot open {0} in the sandbox: it is, or leads through, a symbolic link")]
    Linked(String),
    /// The sandbox's own user may not.
    #[error("cannot open {0} in the sandbox: its permissions do not allow it")]
    Denied(String),
    /// A FIFO, socket or device.
    #[error("{0} in the sandbox is neither a file nor a directory")]
    Special(String),
    /// A file was wanted.
    #[error("{0} in the sandbox is a directory")]
    IsDirectory(String),
    /// A directory was wanted, at the end or on the way.
    #[error("{0} in the sandbox is not a directory, or leads through something that is none")]
    NotDirectory(String),
    /// Something is there already.
    #[error("{0} exists in the sandbox already")]
    Exists(String),
    /// A directory with entries; or one that was filled while it was emptied.
    #[error("{0} in the sandbox is not empty")]
    NotEmpty(String),
    /// A directory cannot be moved below itself.
    #[error("{0} in the sandbox cannot be moved to below itself")]
    IntoItself(String),
    /// Too deep or too many.
    #[error(
        "{0} in the sandbox holds more than {ENTRIES_MAX} entries or is nested deeper than {DEPTH_MAX}"
    )]
    TooMuch(String),
    /// More bytes than are allowed; when reading, of sparse files or hard links.
    #[error("{path} in the sandbox would take more than the {bytes_max} bytes allowed")]
    TooLarge {
        /// The path, as the guest sees it.
        path: String,
        /// The most that was allowed.
        bytes_max: u64,
    },
    /// The sandbox's disk has no room, or no more files.
    #[error("there is no room for {0}: the sandbox's disk is full")]
    DiskFull(String),
    /// A file became shorter while it was read.
    #[error("{0} in the sandbox became shorter while it was read")]
    Shrunk(String),
    /// The wanted part is not in the file.
    #[error("the wanted part of {path} lies outside its {size} bytes")]
    Range {
        /// The path, as the guest sees it.
        path: String,
        size: u64,
    },
    /// A write that failed before was to be finished.
    #[error("{0} was not written completely and is left as it was")]
    Unfinished(String),
    /// An entry of an uploaded archive that is not unpacked.
    #[error("the archive's entry {name:?} is refused: {reason}")]
    Entry {
        /// The name in the archive, at most its beginning.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Something said about a file that cannot be kept.
    #[error("what is said about {path} cannot be kept: {reason}")]
    Metadata {
        /// The path, as the guest sees it.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The process in the sandbox that reads for the host gave no answer.
    #[error("cannot read {path} in the sandbox: {reason}")]
    Unanswered {
        /// The path, as the guest sees it.
        path: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// More happened in a watched directory than the queue of events holds.
    #[error("so much happened in {0} that some of it was missed")]
    Missed(String),
    /// An uploaded archive that cannot be read on.
    #[error("cannot read the archive")]
    Archive(#[source] io::Error),
    /// The receiver of what is read takes no more.
    #[error("cannot pass on what was read in the sandbox")]
    Output(#[source] io::Error),
    /// The host's side of a copy failed.
    #[error("cannot write {0}")]
    Write(PathBuf, #[source] io::Error),
    /// The guest's side failed in a way that has no name here.
    #[error("cannot {doing} {path} in the sandbox")]
    System {
        doing: &'static str,
        /// The path, as the guest sees it.
        path: String,
        #[source]
        source: io::Error,
    },
}

impl FileError {
    /// Names what the kernel said about a path.
    pub(crate) fn of(doing: &'static str, shown: &str, errno: Errno) -> Self {
        let path = shown.to_owned();
        match errno {
            Errno::NOENT => Self::Missing(path),
            // ELOOP is the answer to a link, EXDEV to a path that leaves the directory or its mount
            // (openat2(2)).
            Errno::LOOP | Errno::XDEV => Self::Linked(path),
            Errno::ACCESS | Errno::PERM => Self::Denied(path),
            // A socket, or a FIFO without a reader, cannot be opened at all.
            Errno::NXIO => Self::Special(path),
            Errno::ISDIR => Self::IsDirectory(path),
            Errno::NOTDIR => Self::NotDirectory(path),
            Errno::EXIST => Self::Exists(path),
            Errno::NOTEMPTY => Self::NotEmpty(path),
            Errno::NOSPC | Errno::DQUOT => Self::DiskFull(path),
            _ => Self::System { doing, path, source: errno.into() },
        }
    }

    /// Names what the kernel said about a path in a call through the standard library.
    pub(super) fn of_io(doing: &'static str, shown: &str, error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => Self::of(doing, shown, errno),
            None => Self::System { doing, path: shown.to_owned(), source: error },
        }
    }

    /// Returns whether a walk leaves the entry out and goes on: a link, a special file, one that
    /// may not be read, or one that is gone or was swapped since its name was read.
    pub(super) fn is_of_one_entry(&self) -> bool {
        matches!(
            self,
            Self::Missing(_)
                | Self::Linked(_)
                | Self::Denied(_)
                | Self::Special(_)
                | Self::NotDirectory(_)
                | Self::IsDirectory(_)
        )
    }
}
