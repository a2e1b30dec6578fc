//! Going through a directory tree by descriptors, depth first, without recursion.
//!
//! The names of a directory are read when it is entered, so a guest that goes on making files does
//! not keep a walk going. A directory that the guest moves meanwhile stays the one that was opened.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::RawDir;

use super::{DEPTH_MAX, ENTRIES_MAX, FileError};

/// How much of a directory is read at a time.
const NAMES_BUFFER_BYTES: usize = 16 * 1024;

/// What comes next in a walk.
pub(super) enum Step {
    /// A name in [`Walk::directory`].
    Entry(CString),
    /// The directory of this name in [`Walk::directory`] has been gone through.
    Left(CString),
}

/// A walk through a tree.
pub(super) struct Walk {
    levels: Vec<Level>,
    entries_left: usize,
    /// The path the walk began at, as the guest sees it.
    shown: String,
}

struct Level {
    directory: OwnedFd,
    name: CString,
    names: std::vec::IntoIter<CString>,
}

impl Walk {
    /// Begins in a directory, which is not itself a step.
    pub(super) fn new(directory: OwnedFd, shown: &str) -> Result<Self, FileError> {
        Self::bounded(directory, shown, ENTRIES_MAX)
    }

    /// Begins in a directory, and goes through at most so many entries.
    pub(super) fn bounded(
        directory: OwnedFd,
        shown: &str,
        entries_left: usize,
    ) -> Result<Self, FileError> {
        let mut walk = Self { levels: Vec::new(), entries_left, shown: shown.to_owned() };
        walk.enter(directory, CString::default())?;
        Ok(walk)
    }

    /// Returns the next step; `None` when all is done.
    pub(super) fn next(&mut self) -> Option<Step> {
        let level = self.levels.last_mut()?;
        if let Some(name) = level.names.next() {
            return Some(Step::Entry(name));
        }
        let left = self.levels.pop()?;
        (!self.levels.is_empty()).then_some(Step::Left(left.name))
    }

    /// Goes into a directory that was opened in [`Walk::directory`].
    pub(super) fn enter(&mut self, directory: OwnedFd, name: CString) -> Result<(), FileError> {
        // Each level holds a descriptor, and a guest can nest directories without end.
        if self.levels.len() >= DEPTH_MAX {
            return Err(FileError::TooMuch(self.shown.clone()));
        }
        let mut buffer = Vec::with_capacity(NAMES_BUFFER_BYTES);
        let names = read_names(directory.as_fd(), self.entries_left, &mut buffer)
            .map_err(|errno| FileError::of("list", &self.shown, errno))?;
        // All or nothing: a copy or an archive of a part would look like the whole.
        if !names.complete {
            return Err(FileError::TooMuch(self.shown.clone()));
        }
        self.entries_left -= names.list.len();
        self.levels.push(Level { directory, name, names: names.list.into_iter() });
        Ok(())
    }

    /// Returns how many more entries it may go through.
    pub(super) fn entries_left(&self) -> usize {
        self.entries_left
    }

    /// Returns whether it can go no deeper than [`Walk::directory`].
    pub(super) fn is_deepest(&self) -> bool {
        self.levels.len() >= DEPTH_MAX
    }

    /// Returns the directory that the last step is about.
    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.levels.last().expect("asked for only after a step").directory.as_fd()
    }

    /// Returns a name in [`Walk::directory`] as a path from where the walk began.
    pub(super) fn relative(&self, name: &CString) -> Vec<u8> {
        // The first level is where the walk began; it has no name.
        let levels = self.levels[1..].iter().map(|level| &level.name);
        let parts: Vec<&[u8]> = levels.chain([name]).map(|name| name.to_bytes()).collect();
        parts.join(&b'/')
    }
}

/// The names in a directory.
pub(super) struct Names {
    pub(super) list: Vec<CString>,
    /// Whether these are all.
    pub(super) complete: bool,
}

/// Reads the names in a directory that was opened just now, at most so many. The buffer is only
/// lent, so that it can be used again.
pub(super) fn read_names(
    directory: BorrowedFd<'_>,
    most: usize,
    buffer: &mut Vec<u8>,
) -> rustix::io::Result<Names> {
    let mut list = Vec::new();
    buffer.reserve(NAMES_BUFFER_BYTES);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        if list.len() == most {
            return Ok(Names { list, complete: false });
        }
        list.push(entry.file_name().to_owned());
    }
    Ok(Names { list, complete: true })
}
