//! What can go wrong while building, by what the caller can do about it.

use std::io;
use std::path::PathBuf;

use super::{ManifestError, PythonError, Step, TemplateName, TemplateStoreError, ToolError};

/// Why a build did not happen. The build before it, if any, is untouched.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no interpreter to build with.
    #[error("no suitable Python for template `{name}`")]
    Python {
        name: TemplateName,
        #[source]
        source: Box<PythonError>,
    },
    /// A file of the template could not be read.
    #[error("could not read {path}", path = path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The data directory cannot be written.
    #[error("could not prepare {path}", path = path.display())]
    Home {
        /// What could not be made or opened.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Another process kept building the same template for too long.
    #[error("another build of template `{name}` did not end within {minutes} minutes")]
    Busy {
        name: TemplateName,
        /// How long was waited.
        minutes: u64,
    },
    /// A step failed.
    #[error("building template `{name}` failed at step `{step}`")]
    Step {
        name: TemplateName,
        /// The step; the ones before it are kept.
        step: Step,
        #[source]
        source: Box<StepError>,
    },
    /// The finished build could not be put in place or read back.
    #[error("could not put the build of template `{name}` in place")]
    Store {
        name: TemplateName,
        #[source]
        source: Box<TemplateStoreError>,
    },
    /// The options asked to stop here.
    #[error("stopped after step `{0}` as asked")]
    Stopped(Step),
}

/// Why one step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A file operation failed.
    #[error("could not {doing} {path}", path = path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A tree has more entries or is deeper than allowed.
    #[error("{path} has too many files or is too deep", path = path.display())]
    TooBig { path: PathBuf },
    /// pip failed.
    #[error("pip could not {doing} the packages")]
    Pip {
        /// Which of its jobs failed.
        doing: &'static str,
        #[source]
        source: ToolError,
    },
    /// Byte-compiling failed.
    #[error("could not byte-compile {path}", path = path.display())]
    Compile {
        /// What was being compiled.
        path: PathBuf,
        #[source]
        source: ToolError,
    },
    /// Byte-compiling could not write what it made.
    #[error("could not store byte code: {message}")]
    CompileWrite { message: String },
    /// A module of the preload list cannot be imported.
    #[error("could not import `{module}` from the built tree")]
    Import {
        module: String,
        #[source]
        source: ToolError,
    },
    /// The interpreter answered something else than asked.
    #[error("the interpreter gave an answer that is not understood while {doing}")]
    Answer { doing: &'static str },
    /// The manifest could not be written.
    #[error("the manifest")]
    Manifest(#[from] ManifestError),
}

impl BuildError {
    /// Returns what the user can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Python { source, .. } => source.advice(),
            Self::Read { .. } => "check that the file exists and can be read",
            Self::Home { .. } => "choose a data directory that this user can write (SILICA_HOME)",
            Self::Busy { .. } => "look for a hanging `silica` process, or wait for it",
            Self::Step { source, .. } => source.advice(),
            Self::Store { .. } => "check the data directory's free space and permissions",
            Self::Stopped(_) => "run the build again; it goes on from here",
        }
    }
}

impl StepError {
    fn advice(&self) -> &'static str {
        match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space and run the build again; finished steps are kept"
            }
            Self::Io { .. } | Self::CompileWrite { .. } | Self::Manifest(_) => {
                "check the data directory's free space and permissions, then build again"
            }
            Self::TooBig { .. } => "use a smaller Python installation",
            Self::Pip { .. } => {
                "check the network, the pins, and that every package has a wheel for this Python, then build again; finished downloads are kept"
            }
            Self::Compile { .. } | Self::Answer { .. } => {
                "check that the Python installation is complete, or name another one"
            }
            Self::Import { .. } => {
                "add what the module needs to the template, or take it off the preload list"
            }
        }
    }
}

impl PythonError {
    /// Returns what the user can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Missing { .. } => {
                "install Python, e.g. `apt install python3 python3-pip`, or name one with SILICA_PYTHON"
            }
            Self::NoAnswer { .. } | Self::BadAnswer { .. } | Self::NotCPython { .. } => {
                "name a CPython interpreter with SILICA_PYTHON or `interpreter` in template.toml"
            }
            Self::Version { .. } => {
                "install a Python that fits and name it with SILICA_PYTHON or `interpreter` in template.toml"
            }
            Self::NoPip { .. } => {
                "install it, e.g. `apt install python3-pip` or `dnf install python3-pip`"
            }
            Self::OldPip { .. } => "upgrade it with `python3 -m pip install --upgrade pip`",
        }
    }
}
