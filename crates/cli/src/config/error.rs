//! The errors of a configuration, with the key, the place and the allowed values.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use super::origin::Origin;

/// The most problems that are reported at once.
pub(super) const PROBLEMS_MAX: usize = 20;

/// Why a configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file does not exist or cannot be read.
    #[error("cannot read the configuration file {path}", path = path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file is larger than a configuration may be.
    #[error("the configuration file {path} must have at most {bytes_max} bytes", path = path.display())]
    TooLarge { path: PathBuf, bytes_max: usize },
    /// The configuration is invalid; at least one problem.
    #[error("{}", all(.0))]
    Problems(Vec<Problem>),
}

/// One problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// The file is not TOML.
    #[error("{path}:{line}:{column}: this is not TOML: {message}", path = path.display())]
    Syntax {
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in bytes.
        column: usize,
        /// The message of the parser.
        message: String,
    },
    /// There is no such key.
    #[error("{origin}: `{key}` is not a key{}", suggestion(.nearest.as_deref()))]
    Unknown {
        origin: Origin,
        key: String,
        /// The most similar key.
        nearest: Option<&'static str>,
    },
    /// The value of a key is not allowed.
    #[error("{origin}: `{key}` is {given}; allowed: {allowed}")]
    Value {
        origin: Origin,
        /// The key, with the part of its value that is not allowed.
        key: String,
        /// The value, in words that follow "is".
        given: String,
        /// The allowed values.
        allowed: String,
    },
    /// Values that are valid by themselves and contradict each other.
    #[error("{0}")]
    Together(String),
    /// There are more problems than are reported.
    #[error("and more")]
    More,
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}

fn all(problems: &[Problem]) -> String {
    if let [problem] = problems {
        return problem.to_string();
    }
    let mut text = "the configuration is invalid:".to_owned();
    for problem in problems {
        let _ = write!(text, "\n  {problem}"); // Writing to a string cannot fail.
    }
    text
}
