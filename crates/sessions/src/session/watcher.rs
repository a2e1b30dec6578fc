//! Watching directories of a session: as a stream of notices, or buffered until a client polls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use silica_domain::WatcherId;
use silica_engine::{FileError, GuestPath, Notice, Reach, Watch};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;

use super::Session;
use crate::error::SessionError;
use crate::kept::KeptBytes;

/// The most watches of one sandbox at a time.
pub(super) const WATCHES_MAX: usize = 32;

/// The most notices that are buffered for a client that does not poll.
const NOTICES_MAX: usize = 10_000;

/// A watched directory; dropping this ends the watch.
#[derive(Debug)]
pub struct FileWatch {
    watch: Watch,
    _permit: OwnedSemaphorePermit,
}

impl FileWatch {
    /// Waits for the next notice. The future may be dropped and the method called again.
    pub async fn next(&mut self) -> Result<Notice, FileError> {
        self.watch.next().await
    }
}

/// Buffers file events until the client polls.
#[derive(Debug)]
pub struct FileWatcher {
    /// Its id, unique in its sandbox.
    pub id: WatcherId,
    /// The directory that is watched.
    pub path: GuestPath,
    buffer: Arc<Mutex<Buffer>>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Buffer {
    notices: VecDeque<Notice>,
    /// Counts the notices in the budget of the key.
    kept: KeptBytes,
    /// Why no more notices come.
    failure: Option<FileError>,
}

/// Returns how many bytes of memory a notice takes.
fn notice_bytes(notice: &Notice) -> u64 {
    (size_of::<Notice>() + notice.name.len()) as u64
}

fn lock(buffer: &Mutex<Buffer>) -> MutexGuard<'_, Buffer> {
    // A queue: a panic while the lock is held leaves no broken invariant.
    buffer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileWatcher {
    /// Returns the oldest notices that were not taken yet, at most `count`. Once all are taken, a failure of the watch is
    /// returned.
    pub fn take(&self, count: usize) -> Result<Vec<Notice>, FileError> {
        let mut buffer = lock(&self.buffer);
        match buffer.failure.take() {
            Some(error) if buffer.notices.is_empty() => Err(error),
            failure => {
                buffer.failure = failure;
                let count = count.min(buffer.notices.len());
                let taken: Vec<Notice> = buffer.notices.drain(..count).collect();
                buffer.kept.shrink(taken.iter().map(notice_bytes).sum());
                Ok(taken)
            }
        }
    }
}

impl Drop for FileWatcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Fills a buffer until the watch fails or the buffer is full.
async fn fill(mut watch: FileWatch, path: GuestPath, into: Arc<Mutex<Buffer>>) {
    loop {
        let next = watch.next().await;
        let mut buffer = lock(&into);
        match next {
            Ok(notice)
                if buffer.notices.len() == NOTICES_MAX
                    || !buffer.kept.grow(notice_bytes(&notice)) =>
            {
                buffer.failure = Some(FileError::Missed(path.to_string()));
                return;
            }
            Ok(notice) => buffer.notices.push_back(notice),
            Err(error) => {
                buffer.failure = Some(error);
                return;
            }
        }
    }
}

impl Session {
    /// Watches a directory from now on.
    pub async fn watch(&self, path: &GuestPath, reach: Reach) -> Result<FileWatch, SessionError> {
        let permit = Arc::clone(&self.watches).try_acquire_owned();
        let permit = permit.map_err(|_| SessionError::TooManyWatches(WATCHES_MAX))?;
        self.touch()?;
        let files = Arc::clone(self.sandbox.files());
        let watched = path.clone();
        let begun = self.blocking(move || files.watch(&watched, reach)).await?.await;
        let watch = begun.unwrap_or_else(|_| Err(FileError::Missed(path.to_string())))?;
        Ok(FileWatch { watch, _permit: permit })
    }

    /// Watches a directory from now on, and buffers the notices.
    pub async fn create_watcher(
        &self,
        path: &GuestPath,
        reach: Reach,
    ) -> Result<Arc<FileWatcher>, SessionError> {
        let watch = self.watch(path, reach).await?;
        let kept = self.begin_keeping();
        let buffer = Buffer { notices: VecDeque::new(), kept, failure: None };
        let buffer = Arc::new(Mutex::new(buffer));
        let task = tokio::spawn(fill(watch, path.clone(), Arc::clone(&buffer))).abort_handle();
        let mut items = self.lock();
        let id = WatcherId::new(items.next_watcher);
        items.next_watcher += 1;
        let watcher = Arc::new(FileWatcher { id, path: path.clone(), buffer, task });
        items.watchers.push(Arc::clone(&watcher));
        Ok(watcher)
    }

    /// Returns a watcher.
    pub fn watcher(&self, id: WatcherId) -> Result<Arc<FileWatcher>, SessionError> {
        self.touch()?;
        let found = self.lock().watchers.iter().find(|watcher| watcher.id == id).cloned();
        found.ok_or_else(|| SessionError::NoWatcher(id.to_string()))
    }

    /// Ends a watcher.
    pub fn delete_watcher(&self, id: WatcherId) -> Result<(), SessionError> {
        self.watcher(id)?;
        self.lock().watchers.retain(|watcher| watcher.id != id);
        Ok(())
    }
}
