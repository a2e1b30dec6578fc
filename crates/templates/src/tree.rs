//! File trees: making, copying, walking and opening them to every reader.
//!
//! The guest reads the tree under another uid, so modes are set outright and the caller's umask
//! has no say.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::StepError;

/// Most entries of one tree.
const ENTRIES_MAX: usize = 2_000_000;
/// Mode of folders and of programs.
const MODE_OPEN: u32 = 0o755;
/// Mode of other files.
const MODE_FILE: u32 = 0o644;

/// Says what was being done to what when a file operation failed.
pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StepError {
    let path = path.to_owned();
    move |source| StepError::Io { doing, path, source }
}

/// Makes a folder and those above it, readable by all.
pub(super) fn folder(path: &Path) -> Result<(), StepError> {
    fs::create_dir_all(path).map_err(io("make", path))?;
    // create_dir_all leaves the mode to the umask.
    set_mode(path, MODE_OPEN)
}

/// Writes a plain file, readable by all, making the folders above it.
pub(super) fn file(path: &Path, content: &[u8]) -> Result<(), StepError> {
    if let Some(parent) = path.parent() {
        folder(parent)?;
    }
    fs::write(path, content).map_err(io("write", path))?;
    set_mode(path, MODE_FILE)
}

/// Makes a symbolic link, in the place of what is there.
pub(super) fn link(target: &Path, path: &Path) -> Result<(), StepError> {
    // symlink(2) replaces nothing.
    remove(path)?;
    symlink(target, path).map_err(io("link", path))
}

/// Removes a file or a whole tree, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), StepError> {
    // Not followed: a link to a directory is removed itself, and not what it leads to.
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io("remove", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Copies one plain file with its time of change, which byte code is compared with.
pub(super) fn copy_file(source: &Path, target: &Path) -> Result<(), StepError> {
    fs::copy(source, target).map_err(io("copy", source))?;
    let executable = mode_of(&fs::metadata(source).map_err(io("look at", source))?);
    set_mode(target, executable)?;
    let changed = fs::metadata(source).and_then(|metadata| metadata.modified());
    // Byte code is valid for the source's time of change, which fs::copy does not keep.
    let file = fs::File::options().write(true).open(target);
    file.and_then(|file| file.set_modified(changed?)).map_err(io("date", target))
}

/// Copies a tree, links as links, except for what `keep` refuses by its path below `source`.
pub(super) fn copy(
    source: &Path,
    target: &Path,
    keep: &dyn Fn(&Path) -> bool,
) -> Result<(), StepError> {
    folder(target)?;
    walk(source, &mut |path, metadata| {
        let below = path.strip_prefix(source).unwrap_or(path);
        if !keep(below) {
            return Ok(Descend::No);
        }
        let place = target.join(below);
        if metadata.is_dir() {
            folder(&place)?;
        } else if metadata.is_symlink() {
            // Copied as it is: whether it leads anywhere is decided inside, where it is resolved.
            let to = fs::read_link(path).map_err(io("read", path))?;
            link(&to, &place)?;
        } else if metadata.is_file() {
            copy_file(path, &place)?;
        }
        Ok(Descend::Yes)
    })
}

/// Gives every folder and file of a tree a mode that lets every user read it and only the owner
/// write it.
pub(super) fn open_to_readers(root: &Path) -> Result<(), StepError> {
    set_mode(root, MODE_OPEN)?;
    walk(root, &mut |path, metadata| {
        // chmod(2) would follow a link and change a file outside the tree.
        if !metadata.is_symlink() {
            let mode = if metadata.is_dir() { MODE_OPEN } else { mode_of(metadata) };
            set_mode(path, mode)?;
        }
        Ok(Descend::Yes)
    })
}

/// Returns what a tree takes on disk.
pub(super) fn bytes_on_disk(root: &Path) -> Result<u64, StepError> {
    let mut bytes = 0;
    walk(root, &mut |_, metadata| {
        // st_blocks counts 512 bytes whatever the file system's block size is (inode(7)).
        bytes += metadata.blocks() * 512;
        Ok(Descend::Yes)
    })?;
    Ok(bytes)
}

/// Whether a walk goes into the folder it was just shown.
pub(super) enum Descend {
    Yes,
    No,
}

/// Shows everything below `root` to `visit`, a folder before what is in it. Follows no links.
pub(super) fn walk(
    root: &Path,
    visit: &mut dyn FnMut(&Path, &Metadata) -> Result<Descend, StepError>,
) -> Result<(), StepError> {
    let mut folders = vec![root.to_owned()];
    let mut entries: usize = 0;
    while let Some(folder) = folders.pop() {
        for path in children(&folder)? {
            entries += 1;
            if entries > ENTRIES_MAX {
                return Err(StepError::TooBig { path: root.to_owned() });
            }
            // Of the link itself, so that a walk stays in the tree and a loop of links ends.
            let metadata = fs::symlink_metadata(&path).map_err(io("look at", &path))?;
            if matches!(visit(&path, &metadata)?, Descend::Yes) && metadata.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(())
}

/// Returns the paths in a folder, sorted so that builds go the same way every time.
pub(super) fn children(folder: &Path) -> Result<Vec<PathBuf>, StepError> {
    let mut paths = fs::read_dir(folder)
        .and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()
        })
        .map_err(io("list", folder))?;
    paths.sort();
    Ok(paths)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), StepError> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(io("open to readers", path))
}

fn mode_of(metadata: &Metadata) -> u32 {
    if metadata.mode() & 0o111 == 0 { MODE_FILE } else { MODE_OPEN }
}

#[cfg(test)]
mod tests;
