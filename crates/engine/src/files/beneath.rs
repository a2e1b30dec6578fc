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
    // openat2(2), Linux 5.6. The kernel checks each part as it walks, so a guest that swaps a
    // directory for a link at any moment gains nothing. Neither an absolute path nor `..` may leave
    // the directory, no link is followed, not one of /proc either, and no mount is crossed.
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    // Without O_NOCTTY a terminal could become the controlling terminal of this process (open(2)).
    let unwaiting = OFlags::NONBLOCK | OFlags::NOCTTY;
    // With O_PATH nothing is really opened, and openat2 answers EINVAL to any other flag that acts
    // on an open file.
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
    // The descriptor is looked at and not the name, which the guest may have given to another file.
    match kind(&opened, shown)? {
        FileType::RegularFile => Ok(Opened::File(File::from(opened))),
        FileType::Directory => Ok(Opened::Directory(opened)),
        _ => Err(FileError::Special(shown.to_owned())),
    }
}

/// Opens a regular file for writing at its end.
pub(super) fn open_to_append(
    directory: BorrowedFd<'_>,
    name: &[u8],
    shown: &str,
) -> Result<File, FileError> {
    let opened = open_beneath(directory, name, OFlags::WRONLY | OFlags::APPEND, Mode::empty())
        .map_err(|errno| FileError::of("open", shown, errno))?;
    // A FIFO that has a reader opens for writing: refused here, it gets nothing.
    match kind(&opened, shown)? {
        FileType::RegularFile => Ok(File::from(opened)),
        _ => Err(FileError::Special(shown.to_owned())),
    }
}

/// Makes a file, for writing, where nothing has the name.
pub(super) fn create(
    directory: BorrowedFd<'_>,
    name: impl Arg,
    shown: &str,
) -> Result<File, FileError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    open_beneath(directory, name, flags, Mode::from_raw_mode(0o600))
        .map(File::from)
        .map_err(|errno| FileError::of("make", shown, errno))
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

/// Opens the directory in which a path's last part is; returns it with that part.
pub(super) fn open_parent<'path>(
    directory: BorrowedFd<'_>,
    path: &'path GuestPath,
) -> Result<(OwnedFd, &'path [u8]), FileError> {
    let (parent, name) = path.split()?;
    // O_PATH asks for no right to read: to use a name in a directory, the right to search it is
    // enough.
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let parent = open_beneath(directory, parent, flags, Mode::empty())
        .map_err(|errno| FileError::of("open", path.shown(), errno))?;
    Ok((parent, name))
}

/// Opens with O_PATH whatever a path names, a link or a special file too.
pub(super) fn hold(directory: BorrowedFd<'_>, path: &GuestPath) -> Result<OwnedFd, FileError> {
    // With both, a link at the end is not an error but what is held; on the way it still is one.
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    open_beneath(directory, path.inner(), flags, Mode::empty())
        .map_err(|errno| FileError::of("look at", path.shown(), errno))
}

/// Makes a file that has no name yet, in a directory's file system.
pub(super) fn open_nameless(directory: BorrowedFd<'_>, shown: &str) -> Result<File, FileError> {
    // Without O_EXCL, which would forbid the link that names the file later (open(2)).
    let (flags, mode) = (OFlags::TMPFILE | OFlags::WRONLY, Mode::from_raw_mode(0o600));
    open_beneath(directory, ".", flags, mode)
        .map(File::from)
        .map_err(|errno| FileError::of("write", shown, errno))
}

/// Gives a nameless file a name, if nothing has it.
pub(super) fn give_name(
    file: &File,
    directory: BorrowedFd<'_>,
    name: impl Arg,
) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd;
    // Linking a descriptor itself needs CAP_DAC_READ_SEARCH, or since Linux 6.10 the very
    // credentials that opened it; its entry in our own /proc does not (linkat(2)).
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = rustix::fs::AtFlags::SYMLINK_FOLLOW;
    rustix::fs::linkat(rustix::fs::CWD, own, directory, name, flags)
}

fn kind(opened: impl AsFd, shown: &str) -> Result<FileType, FileError> {
    let stat = rustix::fs::fstat(opened).map_err(|errno| FileError::of("look at", shown, errno))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}
