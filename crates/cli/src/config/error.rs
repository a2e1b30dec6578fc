//! Why a configuration is not taken.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use super::origin::Origin;

/// The most problems that are told at once.
pub(super) const PROBLEMS_MAX: usize = 20;

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file is not there or cannot be read.
    #[error("cannot read the configuration file {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is too large to be a configuration.
    #[error("{path} is larger than {bytes_max} bytes", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        bytes_max: usize,
    },
    /// What was read is not right; at least one problem.
    #[error("{}", all(.0))]
    Problems(Vec<Problem>),
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// The file is not TOML.
    #[error("{path}:{line}:{column}: this is not TOML: {message}", path = path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1, in bytes.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// There is no such key.
    #[error("{origin}: `{key}` is not a key{}", suggestion(.nearest.as_deref()))]
    Unknown {
        /// Where it stands.
        origin: Origin,
        /// What stands there.
        key: String,
        /// The key that may have been meant.
        nearest: Option<&'static str>,
    },
    /// The key does not take this value.
    #[error("{origin}: `{key}` is {given}; allowed is {allowed}")]
    Value {
        /// Where it stands.
        origin: Origin,
        /// The key, with the part of its value that is wrong.
        key: String,
        /// What was given.
        given: String,
        /// What would have been right.
        allowed: String,
    },
    /// Values that are right by themselves and not together.
    #[error("{0}")]
    Together(String),
    /// There was more than is told.
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
    let mut text = "the configuration is not right:".to_owned();
    for problem in problems {
        let _ = write!(text, "\n  {problem}"); // Writing to a string cannot fail.
    }
    text
}
