//! Files of a session: changed from outside, and by cells, and told apart.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use silica_engine::{
    Changes, Existing, FILE_MODE_DEFAULT, Files, GuestPath, Parents, Snapshot, WriteOptions,
};

use super::Session;
use crate::error::SessionError;

impl Session {
    /// Its files, for reading. Whoever changes them says so with [`Self::touch_files`].
    pub fn files(&self) -> Result<&Arc<Files>, SessionError> {
        self.use_it()?;
        Ok(self.sandbox.files())
    }

    /// Files were changed from outside: that is not the next cell's doing.
    pub fn touch_files(&self) {
        self.files_touched.store(true, Ordering::Release);
    }

    /// Puts files there that came with a request.
    pub async fn put_files(
        self: &Arc<Self>,
        given: Vec<(GuestPath, Vec<u8>)>,
    ) -> Result<(), SessionError> {
        if given.is_empty() {
            return Ok(());
        }
        let (files, session) = (Arc::clone(self.files()?), Arc::clone(self));
        let written = tokio::task::spawn_blocking(move || {
            let written = write_all(&files, &given, session.disk_bytes());
            // Here, since whoever waits for it may leave.
            session.touch_files();
            written
        });
        written.await.unwrap_or(Err(SessionError::ShuttingDown))
    }

    /// Notes how the files stand before a cell, if anybody else has changed them.
    pub(crate) async fn note_files(&self) {
        if !self.files_touched.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut snapshot = self.snapshot.lock().await;
        *snapshot = self.look_at_files().await;
    }

    /// Which files changed since that was last asked.
    pub(crate) async fn changed_files(&self) -> Changes {
        let mut snapshot = self.snapshot.lock().await;
        let Some(before) = snapshot.take() else { return Changes::default() };
        *snapshot = self.look_at_files().await;
        snapshot.as_ref().map(|now| now.since(&before)).unwrap_or_default()
    }

    /// How the files stand; `None` if that cannot be told, as of a sandbox that has ended.
    async fn look_at_files(&self) -> Option<Snapshot> {
        let files = self.sandbox.files();
        if let Some(few) = files.glance().ok()? {
            return Some(few);
        }
        let files = Arc::clone(files);
        tokio::task::spawn_blocking(move || files.snapshot()).await.ok()?.ok()
    }
}

fn write_all(
    files: &Files,
    given: &[(GuestPath, Vec<u8>)],
    bytes_max: u64,
) -> Result<(), SessionError> {
    let (mode, parents) = (FILE_MODE_DEFAULT, Parents::Create);
    let options = WriteOptions { mode, parents, existing: Existing::Replace, bytes_max };
    for (path, bytes) in given {
        let mut writer = files.write(path, &options)?;
        writer.write(bytes)?;
        writer.finish()?;
    }
    Ok(())
}
