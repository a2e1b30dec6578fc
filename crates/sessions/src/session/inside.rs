//! Files that a process in the sandbox reads for a client, because the host must not open them.
//!
//! Each call starts a process, so it needs a permit to transfer something, of which each key has a few.

use silica_engine::{InsideEntry, InsideListing, InsidePath, InsideReader};

use super::Session;
use crate::error::SessionError;

impl Session {
    /// Describes what a path names; of a link, the link itself and where it leads.
    pub async fn inside_stat(&self, path: &InsidePath) -> Result<InsideEntry, SessionError> {
        self.touch()?;
        let _permit = self.services.admission.transfer(self.tenant()).await?;
        Ok(self.sandbox.inside_stat(path).await?)
    }

    /// Lists a directory, so many levels deep.
    pub async fn inside_list(
        &self,
        path: &InsidePath,
        depth: usize,
    ) -> Result<InsideListing, SessionError> {
        self.touch()?;
        let _permit = self.services.admission.transfer(self.tenant()).await?;
        Ok(self.sandbox.inside_list(path, depth).await?)
    }

    /// Opens a file for reading. The caller holds a permit to transfer it.
    pub async fn inside_read(&self, path: &InsidePath) -> Result<InsideReader, SessionError> {
        self.touch()?;
        Ok(self.sandbox.inside_read(path).await?)
    }
}
