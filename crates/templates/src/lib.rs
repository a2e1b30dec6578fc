//! Templates: what a sandbox starts from.
//!
//! A template is a file tree, an interpreter and a list of modules to load ahead, described by a
//! `template.toml`. This crate reads that description ([`TemplateSource`], [`Spec`]), builds the
//! tree under the data directory ([`build`], [`ensure`]) and finds it again ([`load`], [`list`],
//! [`remove`], [`Template::hold`]). It never reads the process's environment, never writes outside
//! the data directory, and never runs a package's build code: only wheels are installed.

mod build;
mod check;
mod command;
mod digest;
mod error;
mod etc;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod home;
mod interpreter;
mod job;
mod lock;
mod manifest;
mod name;
mod options;
mod packages;
mod progress;
mod python;
mod skeleton;
mod source;
mod spec;
mod store;
mod tree;
mod trust;
mod venv;
mod version;
mod wheels;

pub use build::{Step, build, ensure};
pub use command::ToolError;
pub use digest::TemplateDigest;
pub use error::{BuildError, StepError};
pub use home::Home;
pub use lock::{LockError, Packages};
pub use manifest::{MANIFEST_FORMAT, Manifest, ManifestError};
pub use name::{NameError, TemplateName};
pub use options::BuildOptions;
pub use progress::{Progress, Silent};
pub use python::{Python, PythonError};
pub use source::TemplateSource;
pub use spec::{ExtraFile, Spec, SpecError};
pub use store::{
    Hold, ListedTemplate, Template, TemplateStoreError, is_same_file, list, load, remove,
};
pub use trust::TRUST_BUNDLE;
pub use version::{PythonVersion, VersionError, VersionSpec};
