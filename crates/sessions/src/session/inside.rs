//! Files that a process in the sandbox reads for a client, because the host must not open them.
//!
//! Each call starts a process, so it needs a permit to transfer something, of which each key has a few. The session is
//! active meanwhile: in the background the process would hardly get a processor, and would not answer in time.

use std::sync::Arc;

use silica_engine::{
    FileError, FileStat, InsideEntry, InsideListing, InsidePath, InsideReader, Range,
};

use super::Session;
use crate::error::SessionError;

impl Session {
    /// Describes what a path names; of a link, the link itself and where it leads.
    pub async fn inside_stat(
        self: &Arc<Self>,
        path: &InsidePath,
    ) -> Result<InsideEntry, SessionError> {
        self.touch()?;
        let _permit = self.services.admission.transfer(self.tenant()).await?;
        let _executing = self.execute();
        Ok(self.sandbox.inside_stat(path).await?)
    }

    /// Lists a directory, so many levels deep.
    pub async fn inside_list(
        self: &Arc<Self>,
        path: &InsidePath,
        depth: usize,
    ) -> Result<InsideListing, SessionError> {
        self.touch()?;
        let _permit = self.services.admission.transfer(self.tenant()).await?;
        let _executing = self.execute();
        Ok(self.sandbox.inside_list(path, depth).await?)
    }

    /// Opens a file for reading. The caller holds a permit to transfer it.
    pub async fn inside_read(
        self: &Arc<Self>,
        path: &InsidePath,
    ) -> Result<InsideFile, SessionError> {
        self.touch()?;
        let _executing = self.execute();
        let reader = self.sandbox.inside_read(path).await?;
        Ok(InsideFile { session: Arc::clone(self), reader })
    }
}

/// An open file that a process in the sandbox reads.
#[derive(Debug)]
pub struct InsideFile {
    session: Arc<Session>,
    reader: InsideReader,
}

impl InsideFile {
    /// Returns kind, size, mode, owner and time of the file.
    pub fn stat(&self) -> &FileStat {
        self.reader.stat()
    }

    /// Returns how many bytes are left to read.
    pub fn left(&self) -> u64 {
        self.reader.left()
    }

    /// Selects a part of the file.
    pub fn select(&mut self, range: Range) -> Result<(), FileError> {
        self.reader.select(range)
    }

    /// Waits for the next bytes; none at the end. The session is active only while the process reads, not while a client
    /// does.
    pub async fn next(&mut self) -> Result<Vec<u8>, FileError> {
        let _executing = self.session.execute();
        self.reader.next().await
    }
}
