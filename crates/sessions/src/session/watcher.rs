//! Watching directories of a session: told as it happens, or gathered for whoever asks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use silica_domain::WatcherId;
use silica_engine::{FileError, GuestPath, Notice, Reach, Watch};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;

use super::Session;
use crate::error::SessionError;

/// Watches of one sandbox at a time.
pub(crate) const WATCHES_MAX: usize = 32;

/// What is gathered for somebody who does not ask.
const NOTICES_MAX: usize = 10_000;

/// A directory that is watched for as long as this is held.
#[derive(Debug)]
pub struct Watching {
    watch: Watch,
    _place: OwnedSemaphorePermit,
}

impl Watching {
    /// Waits for the next thing to happen. May be given up and called again.
    pub async fn next(&mut self) -> Result<Notice, FileError> {
        self.watch.next().await
    }
}

/// Somebody who remembers what happened until he is asked.
#[derive(Debug)]
pub struct Watcher {
    /// `w1`, `w2` …, unique in its sandbox.
    pub id: WatcherId,
    /// What is watched.
    pub path: GuestPath,
    gathered: Arc<Mutex<Gathered>>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Gathered {
    notices: VecDeque<Notice>,
    /// Why nothing more comes.
    over: Option<FileError>,
}

fn lock(gathered: &Mutex<Gathered>) -> MutexGuard<'_, Gathered> {
    // A queue has no invariant that a panic elsewhere could have broken halfway.
    gathered.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watcher {
    /// What has happened since this was last asked.
    pub fn take(&self) -> Result<Vec<Notice>, FileError> {
        let mut gathered = lock(&self.gathered);
        match gathered.over.take() {
            Some(error) if gathered.notices.is_empty() => Err(error),
            over => {
                gathered.over = over;
                Ok(gathered.notices.drain(..).collect())
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn gather(mut watching: Watching, path: GuestPath, into: Arc<Mutex<Gathered>>) {
    loop {
        let next = watching.next().await;
        let mut gathered = lock(&into);
        match next {
            Ok(_) if gathered.notices.len() == NOTICES_MAX => {
                gathered.over = Some(FileError::Missed(path.to_string()));
                return;
            }
            Ok(notice) => gathered.notices.push_back(notice),
            Err(error) => {
                gathered.over = Some(error);
                return;
            }
        }
    }
}

impl Session {
    /// Watches a directory from now on.
    pub async fn watch(&self, path: &GuestPath, reach: Reach) -> Result<Watching, SessionError> {
        let place = Arc::clone(self.watches()).try_acquire_owned();
        let place = place.map_err(|_| SessionError::TooManyWatches(WATCHES_MAX))?;
        self.use_it()?;
        let files = Arc::clone(self.sandbox.files());
        let watched = path.clone();
        let begun = tokio::task::spawn_blocking(move || files.watch(&watched, reach)).await;
        let watch = begun.unwrap_or_else(|_| Err(FileError::Missed(path.to_string())))?;
        Ok(Watching { watch, _place: place })
    }

    /// The same, for somebody who will ask later.
    pub async fn create_watcher(
        &self,
        path: &GuestPath,
        reach: Reach,
    ) -> Result<Arc<Watcher>, SessionError> {
        let watching = self.watch(path, reach).await?;
        let gathered = Arc::<Mutex<Gathered>>::default();
        let task = tokio::spawn(gather(watching, path.clone(), Arc::clone(&gathered)));
        let task = task.abort_handle();
        Ok(self.add_watcher(|id| Watcher { id, path: path.clone(), gathered, task }))
    }

    fn add_watcher(&self, make: impl FnOnce(WatcherId) -> Watcher) -> Arc<Watcher> {
        let mut inner = self.lock();
        let watcher = Arc::new(make(WatcherId::new(inner.next_watcher)));
        inner.next_watcher += 1;
        inner.watchers.push(Arc::clone(&watcher));
        watcher
    }

    /// A watcher.
    pub fn watcher(&self, id: WatcherId) -> Result<Arc<Watcher>, SessionError> {
        self.use_it()?;
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
