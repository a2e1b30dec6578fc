//! Copying all writable files of one sandbox into another, which has none yet and in which nothing
//! runs. Reads as the one guest, writes as the other, and follows no link on either side.
//!
//! Contents, holes, modes, times, links, hard links and attributes come along. Sockets do not, nor
//! does what its owner may not read.
//! Tests: `tests/it/engine/branching.rs`.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, SeekFrom, Stat, Timespec, Timestamps, UTIME_OMIT, XattrFlags,
};
use rustix::io::Errno;
use silica_domain::{LeftBehind, LeftKind};

use super::names::to_text;
use super::walk::{Step, Walk};
use super::{CHUNK_BYTES, FileError, Files, beneath};

/// The directories that are copied, and where the guest sees them.
const TREES: [(&str, &str); 4] =
    [("workspace", "/workspace"), ("home", "/home/user"), ("tmp", "/tmp"), ("shm", "/dev/shm")];

/// The most bytes of all attributes of one file.
const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;

impl Files {
    /// Copies everything into `target`; returns what could not be copied.
    pub(crate) fn duplicate(&self, target: &Self) -> Result<Vec<LeftBehind>, FileError> {
        let mut copy = Duplicate {
            source: self,
            target,
            root: None,
            linked: HashMap::new(),
            bytes_left: self.copy_bytes_max,
            buffer: vec![0; CHUNK_BYTES],
            left: Vec::new(),
        };
        for (name, shown) in TREES {
            copy.tree(name, shown)?;
        }
        Ok(copy.left)
    }
}

impl Files {
    /// Removes everything in the writable directories.
    pub(crate) fn clear(&self) -> Result<(), FileError> {
        for (name, shown) in TREES {
            self.guest.act(|| {
                let directory = beneath::open_directory(self.as_fd(), name, shown)?;
                super::tree::empty(&directory, shown).map(drop)
            })?;
        }
        Ok(())
    }
}

struct Duplicate<'a> {
    source: &'a Files,
    target: &'a Files,
    /// The directory of the target that the current tree is copied to.
    root: Option<OwnedFd>,
    /// Files with several names that have been copied, by their inode: the path of their directory
    /// in the tree, and the name. A descriptor for each would be as many as the guest likes.
    linked: HashMap<u64, (Vec<u8>, CString)>,
    /// Hard links and holes do not count, so this bounds what a file that grows meanwhile takes.
    bytes_left: u64,
    buffer: Vec<u8>,
    left: Vec<LeftBehind>,
}

impl Duplicate<'_> {
    fn tree(&mut self, name: &str, shown: &str) -> Result<(), FileError> {
        let open =
            |files: &Files| files.guest.act(|| beneath::open_directory(files.as_fd(), name, shown));
        self.root = Some(open(self.target)?);
        self.linked.clear();
        let mut walk = Walk::new(open(self.source)?, shown)?;
        let mut targets = vec![open(self.target)?];
        while let Some(step) = walk.next() {
            let directory = targets.last().expect("as many as the walk has levels");
            match step {
                Step::Entry(name) => {
                    let relative = walk.relative(&name);
                    let shown = format!("{shown}/{}", to_text(&relative));
                    let places = (walk.directory(), directory.as_fd());
                    let entered = self.entry(places, &name, &relative, &shown)?;
                    if let Some((from, to)) = entered {
                        walk.enter(from, name)?;
                        targets.push(to);
                    }
                }
                Step::Left(name) => {
                    targets.pop();
                    let directory = targets.last().expect("the walk has left one below");
                    // Last, since making what is in a directory changes its times, and may need
                    // more rights than it has.
                    self.settle(walk.directory(), directory.as_fd(), &name, shown)?;
                }
            }
        }
        Ok(())
    }

    /// Copies one name. Returns both directories if it is one.
    fn entry(
        &mut self,
        (from, to): (BorrowedFd<'_>, BorrowedFd<'_>),
        name: &CString,
        relative: &[u8],
        shown: &str,
    ) -> Result<Option<(OwnedFd, OwnedFd)>, FileError> {
        let stat = match rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(FileError::of("look at", shown, errno)),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => self.directory(from, to, name, shown),
            FileType::RegularFile => {
                self.file((from, to), name, relative, shown, &stat).map(|()| None)
            }
            FileType::Symlink => self.link(from, to, name, shown).map(|()| None),
            FileType::Fifo => {
                let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
                self.as_target(shown, || {
                    rustix::fs::mknodat(to, name, FileType::Fifo, mode, 0)?;
                    rustix::fs::chmodat(to, name, mode, AtFlags::empty())
                })?;
                Ok(None)
            }
            _ => {
                self.left.push(LeftBehind::new(LeftKind::Socket, shown));
                Ok(None)
            }
        }
    }

    fn as_target<T>(
        &self,
        shown: &str,
        work: impl FnOnce() -> rustix::io::Result<T>,
    ) -> Result<T, FileError> {
        self.target.guest.act(|| work().map_err(|errno| FileError::of("copy", shown, errno)))
    }

    fn directory(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CString,
        shown: &str,
    ) -> Result<Option<(OwnedFd, OwnedFd)>, FileError> {
        let Some(source) = self.readable(shown, || beneath::open_directory(from, name, shown))?
        else {
            return Ok(None);
        };
        let target = self.target.guest.act(|| match rustix::fs::mkdirat(to, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => beneath::open_directory(to, name, shown),
            Err(errno) => Err(FileError::of("copy", shown, errno)),
        })?;
        Ok(Some((source, target)))
    }

    /// Opens something of the source. What is not readable, or is gone, is left behind.
    fn readable<T>(
        &mut self,
        shown: &str,
        open: impl FnOnce() -> Result<T, FileError>,
    ) -> Result<Option<T>, FileError> {
        match self.source.guest.act(open) {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if error.is_of_one_entry() => {
                self.left.push(LeftBehind::new(LeftKind::File, shown));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn link(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CString,
        shown: &str,
    ) -> Result<(), FileError> {
        let read = || {
            rustix::fs::readlinkat(from, name, Vec::new())
                .map_err(|errno| FileError::of("read", shown, errno))
        };
        let Some(points_to) = self.readable(shown, read)? else { return Ok(()) };
        self.as_target(shown, || match rustix::fs::symlinkat(&points_to, to, name) {
            // A link to an input, which the new sandbox has already.
            Err(Errno::EXIST) => Ok(()),
            made => made,
        })
    }

    fn file(
        &mut self,
        (from, to): (BorrowedFd<'_>, BorrowedFd<'_>),
        name: &CString,
        relative: &[u8],
        shown: &str,
        stat: &Stat,
    ) -> Result<(), FileError> {
        if let Some((directory, first)) = self.linked.get(&stat.st_ino) {
            return self.link_again(directory, first, to, name, shown);
        }
        let opened = self.readable(shown, || match beneath::open(from, name, shown)? {
            super::Opened::File(file) => Ok(file),
            super::Opened::Directory(_) => Err(FileError::Special(shown.to_owned())),
        })?;
        let Some(source) = opened else { return Ok(()) };
        let target = self.target.guest.act(|| beneath::create(to, name, shown))?;
        self.contents(&source, &target, shown)?;
        self.attributes(source.as_fd(), target.as_fd(), shown)?;
        self.as_target(shown, || about(target.as_fd(), stat))?;
        if stat.st_nlink > 1 {
            self.linked.insert(stat.st_ino, (directory_of(relative).to_owned(), name.clone()));
        }
        Ok(())
    }

    /// Gives a file that was copied another name.
    fn link_again(
        &self,
        directory: &[u8],
        first: &CString,
        to: BorrowedFd<'_>,
        name: &CString,
        shown: &str,
    ) -> Result<(), FileError> {
        let root = self.root.as_ref().expect("set for each tree").as_fd();
        self.target.guest.act(|| {
            let directory = if directory.is_empty() { b".".as_slice() } else { directory };
            let directory = beneath::open_directory(root, directory, shown)?;
            rustix::fs::linkat(&directory, first, to, name, AtFlags::empty())
                .map_err(|errno| FileError::of("copy", shown, errno))
        })
    }

    /// Copies what is in a file, and leaves its holes.
    fn contents(&mut self, from: &File, to: &File, shown: &str) -> Result<(), FileError> {
        let failed = |errno| FileError::of("copy", shown, errno);
        let length = rustix::fs::fstat(from).map_err(failed)?.st_size.cast_unsigned();
        let Self { target, bytes_left, buffer, source, .. } = self;
        target.guest.act(|| {
            rustix::fs::ftruncate(to, length).map_err(failed)?;
            let mut at = 0;
            while at < length {
                let start = match rustix::fs::seek(from, SeekFrom::Data(at)) {
                    Ok(start) => start,
                    Err(Errno::NXIO) => break,
                    Err(errno) => return Err(failed(errno)),
                };
                let end = rustix::fs::seek(from, SeekFrom::Hole(start)).map_err(failed)?;
                at = start;
                while at < end {
                    let wanted = buffer.len().min((end - at) as usize);
                    let read =
                        rustix::io::pread(from, &mut buffer[..wanted], at).map_err(failed)?;
                    if read == 0 {
                        return Ok(());
                    }
                    *bytes_left =
                        bytes_left.checked_sub(read as u64).ok_or_else(|| FileError::TooLarge {
                            path: shown.to_owned(),
                            bytes_max: source.copy_bytes_max,
                        })?;
                    write_all(to, &buffer[..read], at).map_err(failed)?;
                    at += read as u64;
                }
            }
            Ok(())
        })
    }

    /// Copies extended attributes, where the file system keeps any.
    fn attributes(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        shown: &str,
    ) -> Result<(), FileError> {
        let mut names = vec![0; ATTRIBUTES_BYTES_MAX];
        let Ok(length) = rustix::fs::flistxattr(from, names.as_mut_slice()) else { return Ok(()) };
        let mut value = vec![0; ATTRIBUTES_BYTES_MAX];
        for name in names[..length].split_inclusive(|byte| *byte == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
            let Ok(size) = rustix::fs::fgetxattr(from, name, value.as_mut_slice()) else {
                continue;
            };
            self.as_target(shown, || {
                match rustix::fs::fsetxattr(to, name, &value[..size], XattrFlags::empty()) {
                    // Those of the system are not the guest's to set.
                    Err(Errno::PERM | Errno::NOTSUP) => Ok(()),
                    set => set,
                }
            })?;
        }
        Ok(())
    }

    /// Gives a directory its mode and times, when all that is in it has been copied.
    fn settle(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CString,
        shown: &str,
    ) -> Result<(), FileError> {
        let Ok(stat) = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(());
        };
        let directory = self.target.guest.act(|| beneath::open_directory(to, name, shown))?;
        self.as_target(shown, || about(directory.as_fd(), &stat))
    }
}

/// Returns the path of the directory that a path is in; empty for a name alone.
fn directory_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |slash| &path[..slash])
}

/// Sets mode and time of change.
fn about(file: BorrowedFd<'_>, stat: &Stat) -> rustix::io::Result<()> {
    rustix::fs::fchmod(file, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    let modified = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec.cast_signed() };
    let unchanged = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: unchanged, last_modification: modified };
    rustix::fs::futimens(file, &times)
}

fn write_all(file: &File, mut bytes: &[u8], mut at: u64) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::pwrite(file, bytes, at)?;
        bytes = &bytes[written..];
        at += written as u64;
    }
    Ok(())
}
