//! Writing one file in pieces: it appears when it is whole, or not at all.
//!
//! The bytes go into a file without a name, which no other process sees and which vanishes with
//! this one. Finished, it gets its name in one step: by a link if nothing has the name, else by a
//! link under a hidden name that is moved over the other. Whatever the guest does to the hidden
//! name or to the directory in that moment, it does to its own files.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::identity::Identity;
use super::{FileError, Files, GuestPath, beneath};

/// The permission bits of a file if the request names none.
pub const FILE_MODE_DEFAULT: u32 = 0o644;

/// How many hidden names are tried. They are random, so the first is free.
const HIDDEN_ATTEMPTS: usize = 4;

/// How hidden names begin.
const HIDDEN_PREFIX: &str = ".silica-";

/// Returns whether a name is one that a file has for a moment while it takes another's place.
pub(super) fn is_hidden(name: &str) -> bool {
    name.strip_prefix(HIDDEN_PREFIX)
        .is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// What a write does with directories that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parents {
    /// They are made.
    Create,
    /// They are missing.
    Require,
}

/// What a write does with a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is replaced when the new one is whole. A link is replaced itself.
    Replace,
    /// The write is refused.
    Refuse,
    /// It gets longer, as the bytes come: a write that is given up leaves what it wrote.
    Append,
}

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Permission bits of a new file; others than 0777 are not given.
    pub mode: u32,
    /// What is done with missing directories.
    pub parents: Parents,
    /// What is done with a file that is there.
    pub existing: Existing,
    /// The most bytes this write may bring.
    pub bytes_max: u64,
}

/// A file that is being written. Dropping it gives the write up.
#[derive(Debug)]
pub struct Writer {
    directory: OwnedFd,
    name: Vec<u8>,
    shown: String,
    guest: Identity,
    /// `None` after a failure: half a file gets no name.
    file: Option<File>,
    /// Whether the file is still to get its name; one that is appended to has it.
    naming: Option<Naming>,
    bytes_max: u64,
    written: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    Replace,
    Refuse,
}

impl Files {
    /// Begins to write a file.
    pub fn write(&self, path: &GuestPath, options: &WriteOptions) -> Result<Writer, FileError> {
        self.guest.act(|| {
            let (directory, name) = self.parent(path, options.parents)?;
            let (file, naming) = begin(&directory, name, path, options)?;
            Ok(Writer {
                directory,
                name: name.to_owned(),
                shown: path.to_string(),
                guest: self.guest,
                file: Some(file),
                naming,
                bytes_max: options.bytes_max,
                written: 0,
            })
        })
    }
}

fn begin(
    directory: &OwnedFd,
    name: &[u8],
    path: &GuestPath,
    options: &WriteOptions,
) -> Result<(File, Option<Naming>), FileError> {
    // Only to say early what would fail or should not be done in the end; nothing rests on it.
    let there = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(FileError::of("look at", path.shown(), errno)),
    };
    let is_plain = matches!(there, None | Some(FileType::RegularFile | FileType::Symlink));
    let naming = match (there, options.existing) {
        (Some(FileType::Directory), _) => return Err(FileError::IsDirectory(path.to_string())),
        (Some(_), Existing::Refuse) => return Err(FileError::Exists(path.to_string())),
        _ if !is_plain => return Err(FileError::Special(path.to_string())),
        (Some(_), Existing::Append) => {
            let file = beneath::open_to_append(directory.as_fd(), name, path.shown())?;
            return Ok((file, None));
        }
        (_, Existing::Replace) => Naming::Replace,
        // An append to nothing makes a file. One that the guest makes meanwhile is not replaced by
        // it.
        (None, Existing::Refuse | Existing::Append) => Naming::Refuse,
    };
    let file = beneath::open_nameless(directory.as_fd(), path.shown())?;
    // Not by the mode of opening, from which the process's mask would take bits away.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(options.mode & 0o777))
        .map_err(|errno| FileError::of("write", path.shown(), errno))?;
    Ok((file, Some(naming)))
}

impl Writer {
    /// Writes the next piece. After an error the write cannot be finished.
    pub fn write(&mut self, chunk: &[u8]) -> Result<(), FileError> {
        let written = self.try_write(chunk);
        // The file has a gap or is cut short. Without a descriptor it can get no name.
        if written.is_err() {
            self.file = None;
        }
        written
    }

    /// Returns its path, as the guest sees it.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Does something to the file with the guest's rights.
    pub(super) fn as_guest(
        &self,
        work: impl FnOnce(&File) -> rustix::io::Result<()>,
    ) -> rustix::io::Result<()> {
        let file = self.file.as_ref().ok_or(Errno::BADF)?;
        self.guest.act(|| Ok(work(file))).unwrap_or(Err(Errno::PERM))
    }

    fn try_write(&mut self, chunk: &[u8]) -> Result<(), FileError> {
        let file = self.file.as_mut().ok_or_else(|| FileError::Unfinished(self.shown.clone()))?;
        let written = self.written.saturating_add(chunk.len() as u64);
        // Before the write, so that not one byte above the bound takes room on the sandbox's disk.
        if written > self.bytes_max {
            let (path, bytes_max) = (self.shown.clone(), self.bytes_max);
            return Err(FileError::TooLarge { path, bytes_max });
        }
        // As the host: a descriptor keeps the rights with which it was opened.
        file.write_all(chunk).map_err(|error| FileError::of_io("write", &self.shown, error))?;
        self.written = written;
        Ok(())
    }

    /// Returns how many bytes were written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Gives the file its name; returns how many bytes were written.
    pub fn finish(self) -> Result<u64, FileError> {
        let file = self.file.as_ref().ok_or_else(|| FileError::Unfinished(self.shown.clone()))?;
        if let Some(naming) = self.naming {
            self.guest.act(|| {
                self.publish(file, naming)
                    .map_err(|errno| FileError::of("write", &self.shown, errno))
            })?;
        }
        Ok(self.written)
    }

    fn publish(&self, file: &File, naming: Naming) -> rustix::io::Result<()> {
        // linkat(2) replaces nothing, so a name that is free is taken without a moment in which
        // another file could be lost. rename(2) replaces in one step, but needs a name to move
        // from.
        match (beneath::give_name(file, self.directory.as_fd(), &*self.name), naming) {
            (Err(Errno::EXIST), Naming::Replace) => {}
            (named, _) => return named,
        }
        let hidden = self.hide(file)?;
        let moved = rustix::fs::renameat(&self.directory, &hidden, &self.directory, &*self.name);
        if moved.is_err() {
            // The guest may have been faster, or keeps a file that it could have made itself.
            let _ = rustix::fs::unlinkat(&self.directory, &hidden, AtFlags::empty());
        }
        moved
    }

    /// Gives the file a name that nothing has.
    fn hide(&self, file: &File) -> rustix::io::Result<String> {
        let mut named = Err(Errno::EXIST);
        // Random, because the guest sees the directory: it could take a name that it can guess, and
        // so fail every write.
        for _ in 0..HIDDEN_ATTEMPTS {
            let hidden = hidden_name()?;
            named =
                beneath::give_name(file, self.directory.as_fd(), hidden.as_str()).map(|()| hidden);
            if !matches!(named, Err(Errno::EXIST)) {
                break;
            }
        }
        named
    }
}

/// Returns a name that the guest cannot guess.
pub(super) fn hidden_name() -> rustix::io::Result<String> {
    Ok(format!("{HIDDEN_PREFIX}{:016x}", random()?))
}

fn random() -> rustix::io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
