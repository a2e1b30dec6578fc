//! The one way to a guest's file: `openat2` beneath an open directory, never through a link.
//!
//! Everything in `files` that opens something opens it here. What stays a name is one part of a
//! path below an opened directory, used only in calls that do not follow a link at its end.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::path::Arg;

use super::{FileError, GuestPath, Opened};

/// Opens beneath a directory. `O_NONBLOCK`, or opening a FIFO would wait for its other end.
fn open_beneath(
    directory: BorrowedFd<'_>,
    relative: impl Arg,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let unwaiting = OFlags::NONBLOCK | OFlags::NOCTTY;
    // With `O_PATH` nothing is really opened, and the kernel takes neither.
    let further = if flags.contains(OFlags::PATH) { OFlags::empty() } else { unwaiting };
    let flags = flags | further | OFlags::CLOEXEC;
    rustix::fs::openat2(directory, relative, flags, mode, resolve)
}

/// Opens a file or directory for reading.
pub(super) fn open(
    directory: BorrowedFd<'_>,
    relative: impl Arg,
    shown: &str,
) -> Result<Opened, FileError> {
    let opened = open_beneath(directory, relative, OFlags::RDONLY, Mode::empty())
        .map_err(|errno| FileError::of("open", shown, errno))?;
    match kind(&opened, shown)? {
        FileType::RegularFile => Ok(Opened::File(File::from(opened))),
        FileType::Directory => Ok(Opened::Directory(opened)),
        _ => Err(FileError::Special(shown.to_owned())),
    }
}

/// Opens a regular file for writing at its end.
pub(super) fn open_to_append(
    directory: BorrowedFd<'_>,
    name: &str,
    shown: &str,
) -> Result<File, FileError> {
    let opened = open_beneath(directory, name, OFlags::WRONLY | OFlags::APPEND, Mode::empty())
        .map_err(|errno| FileError::of("open", shown, errno))?;
    match kind(&opened, shown)? {
        FileType::RegularFile => Ok(File::from(opened)),
        _ => Err(FileError::Special(shown.to_owned())),
    }
}

/// Opens a directory, to be read.
pub(super) fn open_directory(
    directory: BorrowedFd<'_>,
    relative: impl Arg,
    shown: &str,
) -> Result<OwnedFd, FileError> {
    open_beneath(directory, relative, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
        .map_err(|errno| FileError::of("open", shown, errno))
}

/// Opens the directory in which a path's last part is; with that part.
pub(super) fn open_parent<'path>(
    directory: BorrowedFd<'_>,
    path: &'path GuestPath,
) -> Result<(OwnedFd, &'path str), FileError> {
    let (parent, name) = path.split()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let parent = open_beneath(directory, parent, flags, Mode::empty())
        .map_err(|errno| FileError::of("open", path.shown(), errno))?;
    Ok((parent, name))
}

/// Takes hold of whatever a path names, a link or a special file too, without opening it.
pub(super) fn hold(directory: BorrowedFd<'_>, path: &GuestPath) -> Result<OwnedFd, FileError> {
    // With both, a link at the end is not an error but what is held; on the way it still is one.
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    open_beneath(directory, path.inner(), flags, Mode::empty())
        .map_err(|errno| FileError::of("look at", path.shown(), errno))
}

/// Makes a file that has no name yet, in a directory's file system.
pub(super) fn open_nameless(directory: BorrowedFd<'_>, shown: &str) -> Result<File, FileError> {
    let (flags, mode) = (OFlags::TMPFILE | OFlags::WRONLY, Mode::from_raw_mode(0o600));
    open_beneath(directory, ".", flags, mode)
        .map(File::from)
        .map_err(|errno| FileError::of("write", shown, errno))
}

/// Gives a nameless file a name, if nothing has it.
pub(super) fn give_name(
    file: &File,
    directory: BorrowedFd<'_>,
    name: &str,
) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd;
    // Linking a descriptor itself needs a capability, or the very credentials that opened it; its
    // entry in our own /proc does not.
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = rustix::fs::AtFlags::SYMLINK_FOLLOW;
    rustix::fs::linkat(rustix::fs::CWD, own, directory, name, flags)
}

fn kind(opened: impl AsFd, shown: &str) -> Result<FileType, FileError> {
    let stat = rustix::fs::fstat(opened).map_err(|errno| FileError::of("look at", shown, errno))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}
