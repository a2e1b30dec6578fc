//! A sandbox's files as the host reaches them: through one function, and never through a link.
//!
//! The guest may rename, replace and link whatever it likes while the host looks. So nothing is
//! checked by name and then opened by name: a path is opened once, beneath a directory that was
//! pinned before the guest's first instruction, with links refused by the kernel, and what was opened
//! is looked at.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

/// The writable places: the directory in the sandbox's file system, and where the guest sees it.
const PLACES: [(&str, &str); 3] =
    [("workspace", "/workspace"), ("home", "/home/user"), ("tmp", "/tmp")];

/// How deep a directory is followed when it is copied out.
const DEPTH_MAX: usize = 64;

/// The most entries of a directory that is copied out.
const ENTRIES_MAX: usize = 100_000;

/// A path inside a sandbox, in one of the writable places, without `.`, `..` or empty parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestPath {
    /// Relative to the sandbox's file system; starts with a place's directory.
    inner: String,
    shown: String,
}

/// Why a guest path or file is refused.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not a path that can name a writable file.
    #[error("{0:?} is not a path below /workspace, /home/user or /tmp")]
    Outside(String),
    /// Something on the way is a link, or it does not exist, or is otherwise not to be opened.
    #[error("cannot open {path} in the sandbox{}", if *.linked { ": it is, or leads through, a symbolic link" } else { "" })]
    Open {
        /// The path, as the guest sees it.
        path: String,
        /// Whether a link was in the way.
        linked: bool,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A FIFO, socket or device.
    #[error("{0} in the sandbox is neither a file nor a directory")]
    Special(String),
    /// Too deep or too many.
    #[error(
        "{0} in the sandbox holds more than {ENTRIES_MAX} entries or is nested deeper than {DEPTH_MAX}"
    )]
    TooMuch(String),
    /// More than the sandbox may hold: sparse files or hard links.
    #[error("{0} in the sandbox is larger, written out, than the sandbox's disk limit")]
    TooLarge(String),
    /// The host's side of a copy failed.
    #[error("cannot write {0}")]
    Write(std::path::PathBuf, #[source] io::Error),
    /// The guest's side of a copy failed.
    #[error("cannot read {0} in the sandbox")]
    Read(String, #[source] io::Error),
}

impl GuestPath {
    /// Checks a path as users write it: absolute, or relative to /workspace.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let outside = || FileError::Outside(text.to_owned());
        let shown = match text.strip_prefix('/') {
            Some(_) => text.trim_end_matches('/').to_owned(),
            None => format!("/workspace/{}", text.trim_end_matches('/')),
        };
        let parts = shown.split('/').skip(1);
        let honest = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        if shown.len() > 4096 || !parts.clone().all(honest) {
            return Err(outside());
        }
        let (directory, rest) = PLACES
            .iter()
            .find_map(|(directory, place)| Some((directory, shown.strip_prefix(place)?)))
            .filter(|(_, rest)| rest.is_empty() || rest.starts_with('/'))
            .ok_or_else(outside)?;
        Ok(Self { inner: format!("{directory}{rest}"), shown })
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.shown.rsplit('/').next().unwrap_or_default()
    }
}

impl std::fmt::Display for GuestPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.shown)
    }
}

/// The writable files of one sandbox.
#[derive(Debug)]
pub struct Files {
    directory: OwnedFd,
    /// The most a copy takes of the host: what the sandbox may hold. Sparse files and hard links
    /// would make more of it.
    copy_bytes_max: u64,
}

/// What was opened.
#[derive(Debug)]
pub enum Opened {
    /// A regular file.
    File(File),
    /// A directory.
    Directory(OwnedFd),
}

impl Files {
    pub(crate) fn new(directory: OwnedFd, copy_bytes_max: u64) -> Self {
        Self { directory, copy_bytes_max }
    }

    /// Opens a file or directory for reading.
    pub fn open(&self, path: &GuestPath) -> Result<Opened, FileError> {
        open_beneath(self.directory.as_fd(), &path.inner, &path.shown)
    }

    /// Copies a file or directory to the host. Links and special files inside a directory are left
    /// out; as the path itself they are an error.
    pub fn copy_out(&self, path: &GuestPath, target: &Path) -> Result<u64, FileError> {
        let mut left = Budget { entries: ENTRIES_MAX, bytes: self.copy_bytes_max };
        match self.open(path)? {
            Opened::File(file) => copy_file(file, &path.shown, target, &mut left)?,
            Opened::Directory(directory) => {
                copy_directory(&directory, &path.shown, target, DEPTH_MAX, &mut left)?;
            }
        }
        Ok(self.copy_bytes_max - left.bytes)
    }
}

/// What a copy may still take.
struct Budget {
    entries: usize,
    bytes: u64,
}

impl AsFd for Files {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// The one way to a guest's file. `O_NONBLOCK`, or opening a FIFO would wait for its other end.
fn open_beneath(
    directory: BorrowedFd<'_>,
    relative: &str,
    shown: &str,
) -> Result<Opened, FileError> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let failed = |errno: rustix::io::Errno| FileError::Open {
        path: shown.to_owned(),
        linked: matches!(errno, rustix::io::Errno::LOOP | rustix::io::Errno::XDEV),
        source: errno.into(),
    };
    let opened = rustix::fs::openat2(directory, relative, flags, Mode::empty(), resolve);
    let opened = match opened {
        Ok(opened) => opened,
        // A socket cannot be opened at all; say the same as for the other special files.
        Err(rustix::io::Errno::NXIO) => return Err(FileError::Special(shown.to_owned())),
        Err(errno) => return Err(failed(errno)),
    };
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&opened).map_err(failed)?.st_mode);
    match kind {
        FileType::RegularFile => Ok(Opened::File(File::from(opened))),
        FileType::Directory => Ok(Opened::Directory(opened)),
        _ => Err(FileError::Special(shown.to_owned())),
    }
}

/// Copies into a new file beside the target, then moves it there: never through a link on the host.
fn copy_file(
    mut file: File,
    shown: &str,
    target: &Path,
    left: &mut Budget,
) -> Result<(), FileError> {
    let failed = |error: io::Error| FileError::Write(target.to_owned(), error);
    let mut partial = target.as_os_str().to_owned();
    partial.push(format!(".silica-{}", std::process::id()));
    let partial = Path::new(&partial);
    let mut output = File::options().write(true).create_new(true).open(partial).map_err(failed)?;
    let copied = copy_bytes(&mut file, &mut output, shown, target, left)
        .and_then(|()| std::fs::rename(partial, target).map_err(failed));
    if copied.is_err() {
        // The copy is useless; that it may stay behind does not change the error.
        let _ = std::fs::remove_file(partial);
    }
    copied
}

fn copy_bytes(
    from: &mut File,
    to: &mut File,
    shown: &str,
    target: &Path,
    left: &mut Budget,
) -> Result<(), FileError> {
    use std::io::Write;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let length =
            from.read(&mut buffer).map_err(|error| FileError::Read(shown.to_owned(), error))?;
        if length == 0 {
            return Ok(());
        }
        let rest = left.bytes.checked_sub(length as u64);
        left.bytes = rest.ok_or_else(|| FileError::TooLarge(shown.to_owned()))?;
        to.write_all(&buffer[..length])
            .map_err(|error| FileError::Write(target.to_owned(), error))?;
    }
}

fn copy_directory(
    directory: &OwnedFd,
    shown: &str,
    target: &Path,
    depth: usize,
    left: &mut Budget,
) -> Result<(), FileError> {
    if depth == 0 {
        return Err(FileError::TooMuch(shown.to_owned()));
    }
    match std::fs::create_dir(target) {
        Ok(()) => {}
        Err(_) if target.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) => {}
        Err(error) => return Err(FileError::Write(target.to_owned(), error)),
    }
    let unreadable = |errno: rustix::io::Errno| FileError::Read(shown.to_owned(), errno.into());
    for entry in rustix::fs::Dir::read_from(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let entries = left.entries.checked_sub(1);
        left.entries = entries.ok_or_else(|| FileError::TooMuch(shown.to_owned()))?;
        // A name that is no text stays behind: nothing honest makes one.
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        let inner = format!("{shown}/{name}");
        match open_beneath(directory.as_fd(), name, &inner) {
            Ok(Opened::File(file)) => copy_file(file, &inner, &target.join(name), left)?,
            Ok(Opened::Directory(next)) => {
                copy_directory(&next, &inner, &target.join(name), depth - 1, left)?;
            }
            Err(FileError::Special(_) | FileError::Open { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
