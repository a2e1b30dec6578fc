//! Operations on a template's folder and the locks in it: discarding a build, listing names,
//! locking, writing entries to disk.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::TemplateStoreError;
use crate::digest;
use crate::home::REMOVING_PREFIX;

/// Takes a build out of sight by one rename, then removes it at leisure.
pub(super) fn discard(build: &Path) -> Result<(), TemplateStoreError> {
    let name = build.file_name().unwrap_or_default().to_string_lossy();
    let doomed = build.with_file_name(format!("{REMOVING_PREFIX}{name}"));
    // In one step: a reader finds the whole build or none, also if this process dies while it
    // removes it. `sweep_leftovers` removes the rest.
    fs::rename(build, &doomed).map_err(io("move away", build))?;
    fs::remove_dir_all(&doomed).map_err(io("remove", &doomed))
}

/// Returns the finished builds in a template's folder.
pub(super) fn finished(folder: &Path) -> Result<Vec<PathBuf>, TemplateStoreError> {
    let names = names_in(folder)?.into_iter();
    Ok(names.filter(|name| digest::is_short(name)).map(|name| folder.join(name)).collect())
}

/// Returns the names in a folder, sorted; none if the folder is not there.
pub(super) fn names_in(folder: &Path) -> Result<Vec<String>, TemplateStoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io("list", folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io("list", folder))?;
        // A name that is not UTF-8 is none of ours.
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// Takes the exclusive lock on a file, which is made if need be; nothing if another process has it.
pub(super) fn try_exclusive(path: &Path) -> Result<Option<File>, TemplateStoreError> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(io("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(io("lock", path)(error)),
    }
}

/// Returns whether a path still leads to an open file.
pub fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        // A path may lead to a new file by now, on which a lock of the old one says nothing.
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Writes a folder's entries to disk.
pub(super) fn sync(folder: &Path) -> Result<(), TemplateStoreError> {
    // fsync(2) of a file does not promise that its entry in the folder is written.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("sync", folder))
}

/// Says what was being done to what when a file operation failed.
pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TemplateStoreError {
    let path = path.to_owned();
    move |source| TemplateStoreError::Io { doing, path, source }
}
