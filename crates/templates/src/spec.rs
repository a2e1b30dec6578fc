//! The description of a template: `template.toml` and the files it names, read and checked once.
//!
//! Everything that reaches a [`Spec`] is safe to build from: names are names, targets are places
//! in the guest that a template may fill, and packages are pinned.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::lock::LOCK_BYTES_MAX;
use super::{LockError, NameError, Packages, TemplateName, VersionError, VersionSpec};

mod values;

use values::{check_environment, check_preload, guest_target, refused, relative};

/// Longest `template.toml`, in bytes.
pub(super) const TOML_BYTES_MAX: usize = 256 << 10;
/// Most extra files.
pub(super) const FILES_MAX: usize = 1000;
/// Largest extra file, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 30;
/// A template's description, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub(super) name: TemplateName,
    pub(super) description: String,
    pub(super) python: VersionSpec,
    pub(super) interpreter: Option<PathBuf>,
    pub(super) packages: Packages,
    pub(super) preload: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) files: Vec<ExtraFile>,
    /// `template.toml` and the lock as written: what the digest is made of.
    pub(super) texts: [String; 2],
}

/// A file from beside `template.toml` and its place in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraFile {
    /// Where it lies on this machine.
    pub source: PathBuf,
    /// The absolute guest path.
    pub target: PathBuf,
}

/// Why a description is refused.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// A file could not be read.
    #[error("could not read {path}", path = path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file is larger than allowed.
    #[error("{path} is larger than {bytes_max} bytes", path = path.display())]
    TooLarge { path: PathBuf, bytes_max: u64 },
    /// `template.toml` is not TOML, or has keys that do not exist.
    #[error("template.toml is not understood")]
    Toml(#[from] toml::de::Error),
    /// The name is not one.
    #[error("`name` in template.toml")]
    Name(#[from] NameError),
    /// The name differs from that of the folder it lies in.
    #[error("the template in the folder `{folder}` calls itself `{name}`")]
    OtherName { folder: TemplateName, name: TemplateName },
    /// The version requirement is not understood.
    #[error("`python` in template.toml")]
    Version(#[from] VersionError),
    /// The lock or a pin is refused.
    #[error("the packages of the template")]
    Packages(#[from] LockError),
    /// One key's value is not allowed.
    #[error("`{key}` in template.toml: {value:?} {problem}")]
    Value {
        key: &'static str,
        /// What was given, cut.
        value: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// No template of that name is built in or described in the data directory.
    #[error("there is no template `{name}`; built in are: {known}")]
    Unknown {
        /// What was asked for.
        name: TemplateName,
        /// What exists.
        known: String,
    },
}

/// Reads a file that `template.toml` names, from wherever the template lies.
pub(super) trait Beside {
    /// Returns the text of the file called `name`.
    fn text(&self, name: &Path) -> Result<String, SpecError>;
    /// Returns where an extra file called `name` lies on this machine.
    fn file(&self, name: &Path) -> Result<PathBuf, SpecError>;
}

/// The shape of `template.toml`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateFile {
    name: String,
    #[serde(default)]
    description: String,
    python: Option<String>,
    interpreter: Option<PathBuf>,
    requirements: Option<PathBuf>,
    packages: Option<Vec<String>>,
    #[serde(default)]
    preload: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    files: Vec<FileEntry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    source: PathBuf,
    target: PathBuf,
}

impl Spec {
    /// Returns the template's name.
    pub fn name(&self) -> &TemplateName {
        &self.name
    }

    /// Returns the one line that says what the template is for.
    pub fn description(&self) -> &str {
        &self.description
    }

    pub(super) fn parse(text: &str, beside: &dyn Beside) -> Result<Self, SpecError> {
        let file: TemplateFile = toml::from_str(text)?;
        check_preload(&file.preload)?;
        check_environment(&file.environment)?;
        if let Some(path) = file.interpreter.as_ref().filter(|path| !path.is_absolute()) {
            return Err(refused("interpreter", &path.display(), "is not an absolute path"));
        }
        let (packages, lock) = packages(&file, beside)?;
        Ok(Self {
            name: TemplateName::new(&file.name)?,
            description: file.description,
            python: match &file.python {
                Some(text) => VersionSpec::parse(text)?,
                None => VersionSpec::any(),
            },
            interpreter: file.interpreter,
            packages,
            preload: file.preload,
            environment: file.environment,
            files: extra_files(&file.files, beside)?,
            texts: [text.to_owned(), lock],
        })
    }
}

fn packages(file: &TemplateFile, beside: &dyn Beside) -> Result<(Packages, String), SpecError> {
    match (&file.requirements, &file.packages) {
        (Some(path), None) => {
            let path = relative("requirements", path)?;
            let text = beside.text(path)?;
            if text.len() > LOCK_BYTES_MAX {
                return Err(SpecError::TooLarge {
                    path: path.to_owned(),
                    bytes_max: LOCK_BYTES_MAX as u64,
                });
            }
            Ok((Packages::locked(&text)?, text))
        }
        (None, pins) => {
            let pins = pins.as_deref().unwrap_or_default();
            Ok((Packages::pinned(pins)?, String::new()))
        }
        (Some(path), Some(_)) => Err(refused(
            "requirements",
            &path.display(),
            "cannot be given together with `packages`",
        )),
    }
}

fn extra_files(entries: &[FileEntry], beside: &dyn Beside) -> Result<Vec<ExtraFile>, SpecError> {
    if entries.len() > FILES_MAX {
        return Err(refused("files", &entries.len(), "are more than 1000 files"));
    }
    entries
        .iter()
        .map(|entry| {
            Ok(ExtraFile {
                source: beside.file(relative("files.source", &entry.source)?)?,
                target: guest_target(&entry.target)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;

/// Reads a description that may refer to no other file, and forgets it.
#[cfg(feature = "fuzzing")]
pub(crate) fn read_alone(text: &str) {
    struct Nothing;
    impl Beside for Nothing {
        fn text(&self, _: &Path) -> Result<String, SpecError> {
            Ok(String::new())
        }
        fn file(&self, name: &Path) -> Result<PathBuf, SpecError> {
            Ok(name.to_owned())
        }
    }
    drop(Spec::parse(text, &Nothing));
}
