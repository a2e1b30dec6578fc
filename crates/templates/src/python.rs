//! Finds a Python on this machine and learns what a build must know of it.
//!
//! A candidate is asked, never guessed at: `python3` may be a shell script (pyenv's shims), a
//! virtual environment or a link, and only the interpreter itself knows where its home is.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::command::{ToolError, first_line};
use super::version::PYTHON_FLOOR;
use super::{BuildOptions, PythonVersion, Spec};

/// How long a candidate may take to answer.
const PROBE_WALL_MAX: Duration = Duration::from_secs(30);
/// How many candidates are asked at most.
// Each may take `PROBE_WALL_MAX`, and `PATH` is the caller's.
const CANDIDATES_MAX: usize = 32;
/// The oldest pip that knows what we ask of it.
const PIP_FLOOR: (u32, u32) = (22, 0);
/// Asked when the search path has none.
const FALLBACKS: [&str; 2] = ["/usr/bin/python3", "/usr/local/bin/python3"];

const PROBE: &str = include_str!("host/probe.py");

/// An interpreter on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    executable: PathBuf,
    base_prefix: PathBuf,
    version: PythonVersion,
    abi: String,
    stdlib: PathBuf,
    libdir: Option<PathBuf>,
    pip: PathBuf,
}

/// Why no interpreter can be used.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// There is none.
    #[error("no Python found; looked for: {looked_for}")]
    Missing {
        /// The paths that were tried.
        looked_for: String,
    },
    /// A named interpreter did not answer.
    #[error("{path} does not answer as a Python interpreter", path = path.display())]
    NoAnswer {
        path: PathBuf,
        #[source]
        source: ToolError,
    },
    /// An interpreter answered something else than what it was asked.
    #[error("{path} gave an answer that is not understood", path = path.display())]
    BadAnswer { path: PathBuf },
    /// The interpreter is not CPython.
    #[error("{path} is {implementation}; only CPython can be used", path = path.display())]
    NotCPython {
        path: PathBuf,
        /// What it calls itself.
        implementation: String,
    },
    /// The version is not what the template asks for.
    #[error("{path} is Python {version}; the template needs {needed} (and Silica {PYTHON_FLOOR} or newer)", path = path.display())]
    Version {
        path: PathBuf,
        version: PythonVersion,
        /// What is asked for.
        needed: String,
    },
    /// It has no pip.
    #[error("{path} has no pip module", path = path.display())]
    NoPip { path: PathBuf },
    /// Its pip is too old.
    #[error("{path} has pip {major}.{minor}; 22.0 or newer is needed", path = path.display())]
    OldPip {
        path: PathBuf,
        /// First part of pip's version.
        major: u32,
        minor: u32,
    },
}

/// The shape of the probe's answer.
#[derive(serde::Deserialize)]
struct Answer {
    executable: PathBuf,
    base_prefix: PathBuf,
    version: (u16, u16, u16),
    abi: String,
    stdlib: PathBuf,
    shared: bool,
    libdir: PathBuf,
    implementation: String,
    pip: Option<PathBuf>,
    pip_version: Vec<u32>,
}

impl Python {
    /// Finds the interpreter to build `spec` with: the one it names, the one the options name, or
    /// the first suitable `python3`.
    pub(super) fn find(spec: &Spec, options: &BuildOptions) -> Result<Self, PythonError> {
        if let Some(path) = spec.interpreter.as_ref().or(options.python.as_ref()) {
            return Self::ask(path, spec, options);
        }
        let mut unsuitable = None;
        let candidates = candidates(&options.search_path);
        for path in &candidates {
            match Self::ask(path, spec, options) {
                Ok(python) => return Ok(python),
                // The first reason is the one about the `python3` that the user would get.
                Err(error) => unsuitable = unsuitable.or(Some(error)),
            }
        }
        Err(unsuitable.unwrap_or_else(|| PythonError::Missing {
            looked_for: FALLBACKS.join(", ") + " and `python3` on PATH",
        }))
    }

    /// Returns the interpreter itself, not a link or a virtual environment's copy.
    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// Returns where the installation is rooted.
    pub fn base_prefix(&self) -> &Path {
        &self.base_prefix
    }

    /// Returns its version.
    pub fn version(&self) -> PythonVersion {
        self.version
    }

    /// Returns the name of its binary interface and platform.
    pub fn abi(&self) -> &str {
        &self.abi
    }

    /// Returns the folder of the standard library.
    pub fn stdlib(&self) -> &Path {
        &self.stdlib
    }

    /// Returns the folder of the shared `libpython`, if it is linked to one.
    pub fn libdir(&self) -> Option<&Path> {
        self.libdir.as_deref()
    }

    /// Returns the folder or wheel from which `pip` can be imported.
    pub(super) fn pip(&self) -> &Path {
        &self.pip
    }

    /// Returns whether the guest sees the installation at its place, because it sees `/usr`.
    pub fn is_system(&self) -> bool {
        [&self.base_prefix, &self.executable, &self.stdlib]
            .iter()
            .all(|path| path.starts_with("/usr"))
    }

    fn ask(path: &Path, spec: &Spec, options: &BuildOptions) -> Result<Self, PythonError> {
        let mut command = Command::new(path);
        // Isolated: the answer must be about the installation and not about the caller's variables.
        command.args(["-I", "-B", "-c", PROBE]);
        options.apply_environment(&mut command);
        let line = first_line(&path.display().to_string(), command, PROBE_WALL_MAX)
            .map_err(|source| PythonError::NoAnswer { path: path.to_owned(), source })?;
        let answer: Answer = serde_json::from_str(&line)
            .map_err(|_| PythonError::BadAnswer { path: path.to_owned() })?;
        answer.check(path, spec)
    }
}

impl Answer {
    fn check(self, path: &Path, spec: &Spec) -> Result<Python, PythonError> {
        let path = path.to_owned();
        let (major, minor, micro) = self.version;
        let version = PythonVersion { major, minor, micro };
        if self.implementation != "cpython" {
            return Err(PythonError::NotCPython { path, implementation: self.implementation });
        }
        if !spec.python.admits(version) {
            return Err(PythonError::Version { path, version, needed: spec.python.to_string() });
        }
        // The ABI names a folder of the wheel cache, so it must be one plain part of a path.
        let abi_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !self.abi.bytes().all(abi_byte) || self.abi.contains("..") {
            return Err(PythonError::BadAnswer { path });
        }
        let Some(pip) = self.pip else {
            return Err(PythonError::NoPip { path });
        };
        let major = self.pip_version.first().copied().unwrap_or(0);
        let minor = self.pip_version.get(1).copied().unwrap_or(0);
        if (major, minor) < PIP_FLOOR {
            return Err(PythonError::OldPip { path, major, minor });
        }
        Ok(Python {
            executable: self.executable,
            base_prefix: self.base_prefix,
            version,
            abi: self.abi,
            stdlib: self.stdlib,
            libdir: self.shared.then_some(self.libdir),
            pip,
        })
    }
}

fn candidates(search_path: &OsStr) -> Vec<PathBuf> {
    let on_path = std::env::split_paths(search_path)
        // A relative entry would let the current directory choose the program that runs.
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("python3"));
    let mut candidates: Vec<PathBuf> = Vec::new();
    for path in on_path.chain(FALLBACKS.iter().map(PathBuf::from)) {
        if path.is_file() && !candidates.contains(&path) && candidates.len() < CANDIDATES_MAX {
            candidates.push(path);
        }
    }
    candidates
}

#[cfg(test)]
mod tests;
