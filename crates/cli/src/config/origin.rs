//! The origin of a value, as messages and `silica config` print it.

use std::fmt;
use std::path::PathBuf;

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// A path and a line, from 1.
    File(PathBuf, usize),
    /// An environment variable, by name.
    Variable(String),
    /// A flag, with its dashes.
    Flag(&'static str),
}

impl Origin {
    /// Returns the kind of source, for JSON.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File(..) => "file",
            Self::Variable(_) => "environment",
            Self::Flag(_) => "flag",
        }
    }

    /// Replaces the line of a file; other origins have no line.
    pub(super) fn at(self, line: Option<usize>) -> Self {
        match (self, line) {
            (Self::File(path, _), Some(line)) => Self::File(path, line),
            (origin, _) => origin,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path, line) => write!(formatter, "{}:{line}", path.display()),
            Self::Variable(name) => formatter.write_str(name),
            Self::Flag(flag) => formatter.write_str(flag),
        }
    }
}
