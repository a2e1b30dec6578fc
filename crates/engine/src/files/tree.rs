//! Making, moving and removing names: always one part of a path below an opened directory.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, RenameFlags};
use rustix::io::Errno;

use super::walk::{Step, Walk};
use super::write::hidden_name;
use super::{ENTRIES_MAX, FileError, Files, GuestPath, Parents, beneath};

/// The permission bits of new directories.
const DIRECTORY_MODE: u32 = 0o755;

/// Where the guest sees its inputs.
const INPUTS: &str = "/data/input";

/// Whether a directory was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It was not there before.
    Created,
    /// It was there.
    Existed,
}

/// What a move does with what has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// The move is refused.
    Refuse,
    /// A file, a link or an empty directory gives way to one of its kind, in one step.
    Replace,
}

/// How much is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// A file, a link, a special file or an empty directory.
    Single,
    /// A directory with all that is in it, too.
    Tree,
}

impl Files {
    /// Makes a directory.
    pub fn make_directory(&self, path: &GuestPath, parents: Parents) -> Result<Made, FileError> {
        self.guest.act(|| {
            if path.split().is_err() {
                return Ok(Made::Existed);
            }
            let (parent, name) = self.parent(path, parents)?;
            let made = make_one(parent.as_fd(), name, path.shown())?;
            // What had the name already must be a directory, and not a link to one.
            beneath::open_directory(parent.as_fd(), name, path.shown())?;
            Ok(made)
        })
    }

    /// Makes a link in /workspace to the input of a name. Leaves alone what has the name already.
    pub(crate) fn link_input(&self, input: &str) -> Result<(), FileError> {
        let shown = format!("/workspace/{input}");
        let target = format!("{INPUTS}/{input}");
        self.guest.act(|| {
            let workspace = beneath::open_directory(self.as_fd(), "workspace", &shown)?;
            match rustix::fs::symlinkat(target.as_str(), &workspace, input) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(errno) => Err(FileError::of("make", &shown, errno)),
            }
        })
    }

    /// Moves a file, directory, link or special file, to another place too.
    pub fn rename(
        &self,
        from: &GuestPath,
        to: &GuestPath,
        overwrite: Overwrite,
    ) -> Result<(), FileError> {
        let flags = match overwrite {
            // The kernel looks and moves in one step. A look of ours before would leave the guest a
            // gap.
            Overwrite::Refuse => RenameFlags::NOREPLACE,
            Overwrite::Replace => RenameFlags::empty(),
        };
        self.guest.act(|| {
            let (old, old_name) = beneath::open_parent(self.as_fd(), from)?;
            let (new, new_name) = beneath::open_parent(self.as_fd(), to)?;
            rustix::fs::renameat_with(&old, old_name, &new, new_name, flags).map_err(|errno| {
                match errno {
                    Errno::INVAL => FileError::IntoItself(from.to_string()),
                    Errno::NOENT | Errno::ACCESS | Errno::PERM => {
                        FileError::of("move", from.shown(), errno)
                    }
                    _ => FileError::of("move to", to.shown(), errno),
                }
            })
        })
    }

    /// Removes a file, link or special file, or a directory; returns how many names that were.
    ///
    /// A tree with more than [`ENTRIES_MAX`] entries is removed in part. So is one the guest goes on
    /// filling.
    pub fn remove(&self, path: &GuestPath, removal: Removal) -> Result<usize, FileError> {
        self.guest.act(|| {
            let (parent, name) = beneath::open_parent(self.as_fd(), path)?;
            let failed = |errno| FileError::of("remove", path.shown(), errno);
            let mut count = 1;
            // Tried as a file first, without a look at it: Linux answers EISDIR for a directory
            // (unlink(2)).
            match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
                Ok(()) => return Ok(count),
                Err(Errno::ISDIR) => {}
                Err(errno) => return Err(failed(errno)),
            }
            if removal == Removal::Tree {
                let directory = beneath::open_directory(parent.as_fd(), name, path.shown())?;
                count += empty(&directory, path.shown())?;
            }
            // Fails with ENOTEMPTY if the guest has filled the directory again; it is not tried
            // twice.
            rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(failed)?;
            Ok(count)
        })
    }

    /// Opens the directory in which a path's last part is, made if that is wanted; returns it with
    /// that part.
    pub(super) fn parent<'path>(
        &self,
        path: &'path GuestPath,
        parents: Parents,
    ) -> Result<(OwnedFd, &'path [u8]), FileError> {
        // Mostly the directories are there, and one call opens the last of them.
        match (beneath::open_parent(self.as_fd(), path), parents) {
            (Err(FileError::Missing(_)), Parents::Create) => {}
            (opened, _) => return opened,
        }
        let (directories, last) = path.split()?;
        let mut names = directories.split(|byte| *byte == b'/');
        let place = names.next().unwrap_or_default();
        let mut directory = beneath::open_directory(self.as_fd(), place, path.shown())?;
        for name in names {
            // Opened right after it is made, and through `beneath`: a link that the guest puts
            // there in between is refused, and what was opened stays the same directory.
            make_one(directory.as_fd(), name, path.shown())?;
            directory = beneath::open_directory(directory.as_fd(), name, path.shown())?;
        }
        Ok((directory, last))
    }
}

fn make_one(directory: BorrowedFd<'_>, name: &[u8], shown: &str) -> Result<Made, FileError> {
    match rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(DIRECTORY_MODE)) {
        Ok(()) => Ok(Made::Created),
        Err(Errno::EXIST) => Ok(Made::Existed),
        Err(errno) => Err(FileError::of("make", shown, errno)),
    }
}

/// Removes what is in a directory; returns how many names that were.
///
/// A walk holds a descriptor for each level, so it goes only so deep. A directory below that is
/// moved up to `directory`, where the next walk finds it. Only the one name below an opened
/// directory is used, so nothing outside the tree can be meant by it.
pub(super) fn empty(directory: &OwnedFd, shown: &str) -> Result<usize, FileError> {
    let mut count = 0;
    let mut entries_left = ENTRIES_MAX;
    loop {
        let top = beneath::open_directory(directory.as_fd(), ".", shown)?;
        let mut walk = Walk::bounded(top, shown, entries_left)?;
        let mut moved = false;
        while let Some(step) = walk.next() {
            match step {
                Step::Entry(name) => match unlink(walk.directory(), &name, shown)? {
                    Unlinked::Removed => count += 1,
                    Unlinked::Gone => {}
                    Unlinked::Directory(_) if walk.is_deepest() => {
                        move_up(walk.directory(), &name, directory.as_fd(), shown)?;
                        moved = true;
                    }
                    Unlinked::Directory(next) => walk.enter(next, name)?,
                },
                Step::Left(name) => {
                    match rustix::fs::unlinkat(walk.directory(), &name, AtFlags::REMOVEDIR) {
                        Ok(()) => count += 1,
                        // Gone, or swapped for something else: then removing what it was in will
                        // fail.
                        Err(Errno::NOENT | Errno::NOTDIR) => {}
                        Err(errno) => return Err(FileError::of("remove", shown, errno)),
                    }
                }
            }
        }
        if !moved {
            return Ok(count);
        }
        entries_left = walk.entries_left();
    }
}

/// Moves a directory to `top`, under a name that nothing has.
fn move_up(
    directory: BorrowedFd<'_>,
    name: &CStr,
    top: BorrowedFd<'_>,
    shown: &str,
) -> Result<(), FileError> {
    let moved = hidden_name().and_then(|hidden| {
        rustix::fs::renameat_with(directory, name, top, hidden, RenameFlags::NOREPLACE)
    });
    match moved {
        // Gone meanwhile.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(FileError::of("remove", shown, errno)),
    }
}

/// What became of a name that was to be removed.
enum Unlinked {
    Removed,
    /// Removed or swapped by the guest meanwhile.
    Gone,
    /// It has to be emptied first.
    Directory(OwnedFd),
}

fn unlink(directory: BorrowedFd<'_>, name: &CStr, shown: &str) -> Result<Unlinked, FileError> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) => return Ok(Unlinked::Removed),
        Err(Errno::NOENT) => return Ok(Unlinked::Gone),
        Err(Errno::ISDIR) => {}
        Err(errno) => return Err(FileError::of("remove", shown, errno)),
    }
    match beneath::open_directory(directory, name, shown) {
        Ok(next) => Ok(Unlinked::Directory(next)),
        Err(FileError::Missing(_) | FileError::Linked(_) | FileError::NotDirectory(_)) => {
            Ok(Unlinked::Gone)
        }
        Err(error) => Err(error),
    }
}
