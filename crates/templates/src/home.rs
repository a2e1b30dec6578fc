//! The data directory and where templates lie in it. The only place that spells these paths.

use std::path::{Path, PathBuf};

use super::{TemplateDigest, TemplateName};

/// The data directory (`$SILICA_HOME`), as given by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// Takes the data directory's path; it need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns the data directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the folder that holds every built template.
    pub fn templates(&self) -> PathBuf {
        self.0.join("templates")
    }

    /// Returns the folder that holds one template's builds.
    pub fn template(&self, name: &TemplateName) -> PathBuf {
        self.templates().join(name.as_str())
    }

    /// Returns where a finished build of `digest` lies.
    pub fn finished(&self, name: &TemplateName, digest: &TemplateDigest) -> PathBuf {
        self.template(name).join(digest.short())
    }

    /// Returns where a build of `digest` is put together.
    pub(super) fn building(&self, name: &TemplateName, digest: &TemplateDigest) -> PathBuf {
        self.template(name).join(format!("{BUILDING_PREFIX}{}", digest.short()))
    }

    /// Returns the link that names the build in use.
    pub fn current(&self, name: &TemplateName) -> PathBuf {
        self.template(name).join("current")
    }

    /// Returns the file whose lock says that a build is under way.
    pub(super) fn build_lock(&self, name: &TemplateName) -> PathBuf {
        self.template(name).join(".lock")
    }

    /// Returns the folder of downloaded wheels that fit one interpreter ABI.
    pub(super) fn wheels(&self, abi: &str) -> PathBuf {
        self.0.join("cache/wheels").join(abi)
    }

    /// Returns the folder in which a user's own template of that name is described.
    pub fn user_template(&self, name: &TemplateName) -> PathBuf {
        self.0.join("templates.d").join(name.as_str())
    }
}

/// Folders under a template that begin so are builds that did not finish.
pub(super) const BUILDING_PREFIX: &str = ".building-";
/// Folders under a template that begin so are on their way out.
pub(super) const REMOVING_PREFIX: &str = ".removing-";
