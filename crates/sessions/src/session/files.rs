//! Files of a session: read, changed by clients, changed by cells.
//!
//! A cell reports the files that it changed. What a client changes between two cells must not be part of
//! that report, so the only ways to change files from outside, [`Session::change_files`],
//! [`Session::begin_file_change`] and [`Session::put_files`], have the next cell look at the files anew
//! before it runs.

#[cfg(test)]
mod tests;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use silica_engine::{
    Archived, Changes, Existing, FILE_MODE_DEFAULT, FileError, FileKind, FileStat, Files,
    GuestPath, Listing, Metadata, Parents, Reader, Snapshot, WriteOptions,
};
use tokio::task::JoinHandle;

use super::Session;
use crate::error::SessionError;
use crate::kept::KeptBytes;

/// The files of a sandbox without the operations that change them.
#[derive(Clone, Debug)]
pub struct ReadOnlyFiles(Arc<Files>);

impl From<&Arc<Files>> for ReadOnlyFiles {
    fn from(files: &Arc<Files>) -> Self {
        Self(Arc::clone(files))
    }
}

impl ReadOnlyFiles {
    /// Opens a file for reading.
    pub fn read(&self, path: &GuestPath) -> Result<Reader, FileError> {
        self.0.read(path)
    }

    /// Reads a whole file of at most `bytes_max` bytes.
    pub fn read_whole(&self, path: &GuestPath, bytes_max: u64) -> Result<Vec<u8>, FileError> {
        let mut reader = self.0.read(path)?;
        let size = reader.size();
        let too_large = || FileError::TooLarge { path: path.to_string(), bytes_max };
        if size > bytes_max {
            return Err(too_large());
        }
        let mut bytes = vec![0; usize::try_from(size).map_err(|_| too_large())?];
        let mut filled = 0;
        while filled < bytes.len() {
            match reader.read(&mut bytes[filled..])? {
                0 => break,
                length => filled += length,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Lists a directory, so many levels deep.
    pub fn list(&self, path: &GuestPath, depth: usize) -> Result<Listing, FileError> {
        self.0.list(path, depth)
    }

    /// Returns kind, size, mode, owner and time of a file.
    pub fn stat(&self, path: &GuestPath) -> Result<FileStat, FileError> {
        self.0.stat(path)
    }

    /// Returns whether there is a file of this path.
    pub fn exists(&self, path: &GuestPath) -> Result<bool, FileError> {
        self.0.exists(path)
    }

    /// Returns what clients said about a file when they wrote it.
    pub fn metadata(&self, path: &GuestPath) -> Result<Metadata, FileError> {
        self.0.metadata(path)
    }

    /// Writes a directory as a tar archive.
    pub fn archive(&self, path: &GuestPath, to: &mut dyn Write) -> Result<Archived, FileError> {
        self.0.archive(path, to)
    }
}

/// A snapshot that counts in the budget of its key.
#[derive(Debug)]
pub(super) struct KeptSnapshot {
    files: Snapshot,
    _kept: KeptBytes,
}

impl KeptSnapshot {
    /// Counts a snapshot; `None` if the budget has no room for it.
    pub(super) fn new(files: Snapshot, mut kept: KeptBytes) -> Option<Self> {
        if !kept.grow(files.bytes()) {
            return None;
        }
        kept.settle();
        Some(Self { files, _kept: kept })
    }
}

/// Marks the files as changed from outside when it is dropped, also by a panic.
struct MarkChanged(Arc<AtomicBool>);

impl Drop for MarkChanged {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Calls `change`, and sets `changed` once it has returned or panicked.
fn mark_after<T>(changed: &Arc<AtomicBool>, change: impl FnOnce() -> T) -> T {
    let _mark = MarkChanged(Arc::clone(changed));
    change()
}

/// A change of the files of a sandbox that has not been made yet.
#[derive(Debug)]
pub struct FileChange {
    files: Arc<Files>,
    changed: Arc<AtomicBool>,
}

impl FileChange {
    /// Makes the change, which may block. Whether it succeeds, fails or panics, the next cell does not report it as its
    /// own.
    pub fn apply<T>(self, change: impl FnOnce(&Arc<Files>) -> T) -> T {
        mark_after(&self.changed, || change(&self.files))
    }
}

impl Session {
    /// Checks the directory in which a kernel or a command is to start, and returns its path as the guest sees it. It
    /// must be one in which the API has files: below a writable place, without `..`, not through a link.
    pub(crate) async fn start_directory(&self, directory: &str) -> Result<String, SessionError> {
        let path = GuestPath::parse(directory)?;
        let shown = path.to_string();
        let files = Arc::clone(self.sandbox.files());
        let check = move || match files.stat(&path)?.kind {
            FileKind::Directory => Ok(()),
            FileKind::Symlink => Err(FileError::Linked(path.to_string())),
            FileKind::File | FileKind::Other => Err(FileError::NotDirectory(path.to_string())),
        };
        let checked = self.blocking(check).await?.await;
        checked.unwrap_or_else(|_| Err(FileError::Missing(directory.to_owned())))?;
        Ok(shown)
    }

    /// Starts work on files on a thread that may block, once the owner has a permit for it: each key has few, so that
    /// one key does not take every thread.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SessionError> {
        let permit = self.services.admission.file_call(&self.tenant).await?;
        Ok(tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        }))
    }

    /// Starts to read files on a thread that may block.
    pub async fn look_up<T: Send + 'static>(
        &self,
        look: impl FnOnce(&ReadOnlyFiles) -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SessionError> {
        let files = self.read_files()?;
        self.blocking(move || look(&files)).await
    }

    /// Returns the files for reading.
    pub fn read_files(&self) -> Result<ReadOnlyFiles, SessionError> {
        self.touch()?;
        Ok(ReadOnlyFiles::from(self.sandbox.files()))
    }

    /// Starts a change of the files on a thread that may block. The change goes on if the returned handle
    /// is dropped. Whether it succeeds, fails or panics, the next cell does not report it as its own.
    pub async fn change_files<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Arc<Files>) -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, SessionError> {
        let begun = self.begin_file_change()?;
        self.blocking(move || begun.apply(change)).await
    }

    /// Returns a change of the files that the caller applies on a thread of its own.
    pub fn begin_file_change(&self) -> Result<FileChange, SessionError> {
        self.touch()?;
        let files = Arc::clone(self.sandbox.files());
        Ok(FileChange { files, changed: Arc::clone(&self.files_changed) })
    }

    /// Marks the files as changed by something that is not a cell.
    pub(crate) fn mark_files_changed(&self) {
        self.files_changed.store(true, Ordering::Release);
    }

    /// Writes files that came with a request.
    pub async fn put_files(&self, given: Vec<(GuestPath, Vec<u8>)>) -> Result<(), SessionError> {
        if given.is_empty() {
            return Ok(());
        }
        let bytes_max = self.disk_bytes();
        let written = self.change_files(move |files| write_all(files, &given, bytes_max)).await?;
        Ok(written.await.map_err(|_| SessionError::ShuttingDown)??)
    }

    /// Takes a snapshot before a cell if the files were changed from outside since the last one.
    pub(crate) async fn note_files(&self) {
        if !self.files_changed.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut snapshot = self.snapshot.lock().await;
        *snapshot = None;
        *snapshot = self.look_at_files().await;
    }

    /// Returns which files changed since the last snapshot, and takes a new one.
    pub(crate) async fn changed_files(&self) -> Changes {
        let mut snapshot = self.snapshot.lock().await;
        let Some(before) = snapshot.take() else { return Changes::default() };
        *snapshot = self.look_at_files().await;
        snapshot.as_ref().map_or_else(Changes::left_out, |now| now.files.since(&before.files))
    }

    /// Takes a snapshot; `None` if the files cannot be read, as in a sandbox that has ended, or if the budget of the key
    /// has no room for it.
    async fn look_at_files(&self) -> Option<KeptSnapshot> {
        let files = self.sandbox.files();
        let snapshot = if let Some(few) = files.glance().ok()? {
            few
        } else {
            let files = Arc::clone(files);
            tokio::task::spawn_blocking(move || files.snapshot()).await.ok()?.ok()?
        };
        let kept = KeptSnapshot::new(snapshot, self.begin_keeping());
        if kept.is_none() {
            // The next cell looks again.
            self.mark_files_changed();
        }
        kept
    }
}

fn write_all(
    files: &Files,
    given: &[(GuestPath, Vec<u8>)],
    bytes_max: u64,
) -> Result<(), FileError> {
    let options = WriteOptions {
        mode: FILE_MODE_DEFAULT,
        parents: Parents::Create,
        existing: Existing::Replace,
        bytes_max,
    };
    for (path, bytes) in given {
        let mut writer = files.write(path, &options)?;
        writer.write(bytes)?;
        writer.finish()?;
    }
    Ok(())
}
