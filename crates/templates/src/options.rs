//! What the caller decides about a build, and what programs run on the host may know of it.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use super::Step;

/// Variables that programs run on the host may see, beside pip's own.
const INHERITED: &[&str] = &[
    "ALL_PROXY",
    "CURL_CA_BUNDLE",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "NETRC",
    "NO_PROXY",
    "PATH",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
];
/// Settings of pip that would send packages elsewhere or let it build source archives.
const PIP_REFUSED: &[&str] = &[
    "PIP_CONSTRAINT",
    "PIP_DRY_RUN",
    "PIP_EDITABLE",
    "PIP_IGNORE_INSTALLED",
    "PIP_LOG",
    "PIP_NO_BINARY",
    "PIP_NO_DEPS",
    "PIP_ONLY_BINARY",
    "PIP_PREFIX",
    "PIP_PYTHON",
    "PIP_REPORT",
    "PIP_REQUIREMENT",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_ROOT",
    "PIP_TARGET",
    "PIP_USER",
];

/// What the caller decides about a build. The engine reads no environment of its own.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// The interpreter to use where the template names none.
    pub python: Option<PathBuf>,
    /// Where to look for `python3` otherwise, in the form of `PATH`.
    pub search_path: OsString,
    /// The variables from which pip's, the proxies' and the like are picked.
    pub environment: Vec<(OsString, OsString)>,
    /// Ends the build with an error after this step; for tests of resuming.
    pub stop_after: Option<Step>,
}

impl BuildOptions {
    /// Takes the caller's environment, of which `SILICA_PYTHON` and `PATH` have a meaning here.
    pub fn new(environment: Vec<(OsString, OsString)>) -> Self {
        let value = |name: &str| {
            let found = environment.iter().find(|(key, _)| key == OsStr::new(name));
            found.map(|(_, value)| value.clone())
        };
        Self {
            python: value("SILICA_PYTHON").filter(|path| !path.is_empty()).map(PathBuf::from),
            search_path: value("PATH").unwrap_or_default(),
            environment,
            stop_after: None,
        }
    }

    /// Gives a program that runs on the host the variables it may see, and no others.
    pub(super) fn apply_environment(&self, command: &mut Command) {
        let allowed = |name: &OsStr| {
            // Proxies are often named in lower case (`http_proxy`).
            let name = name.to_string_lossy().to_uppercase();
            let pip = name.starts_with("PIP_") && !PIP_REFUSED.contains(&name.as_str());
            pip || INHERITED.contains(&name.as_str())
        };
        command.env_clear();
        command.envs(
            self.environment
                .iter()
                .filter_map(|(name, value)| allowed(name).then_some((name, value))),
        );
        command.env("PYTHONNOUSERSITE", "1");
    }
}

#[cfg(test)]
mod tests;
