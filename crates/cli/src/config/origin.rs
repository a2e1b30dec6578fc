//! Where a value comes from, as messages and `silica config` say it.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody set it.
    Default,
    /// A line of the configuration file, from 1.
    File(PathBuf, usize),
    /// A variable of the environment, by name.
    Variable(String),
    /// A flag, with its dashes.
    Flag(&'static str),
}

impl Origin {
    /// The kind of place, for programs.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File(..) => "file",
            Self::Variable(_) => "environment",
            Self::Flag(_) => "flag",
        }
    }

    /// The same file at another line; other places have no lines.
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
