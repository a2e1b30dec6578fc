//! Paths that a process in the sandbox resolves, checked once.

use crate::files::{FileError, GuestPath, PART_BYTES_MAX, PATH_BYTES_MAX};

/// An absolute path without `.`, `..` or empty parts. It may lead anywhere the guest can go, so the
/// host opens nothing by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsidePath(String);

impl InsidePath {
    /// Checks a path as users write it. It must be absolute; a part that is `.` is dropped.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let invalid = || FileError::Outside(text.to_owned());
        let rest = text.strip_prefix('/').ok_or_else(invalid)?;
        let mut path = String::new();
        let parts = rest.trim_end_matches('/');
        for part in parts.split('/').filter(|part| *part != "." && !parts.is_empty()) {
            if matches!(part, "" | "..") || part.contains('\0') || part.len() > PART_BYTES_MAX {
                return Err(invalid());
            }
            path.push('/');
            path.push_str(part);
        }
        if text.len() > PATH_BYTES_MAX {
            return Err(invalid());
        }
        if path.is_empty() {
            path.push('/');
        }
        Ok(Self(path))
    }

    /// Returns the last part; nothing for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for InsidePath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<&GuestPath> for InsidePath {
    fn from(path: &GuestPath) -> Self {
        Self(path.to_string())
    }
}

/// A path to read: in the writable directories, which the host opens itself, or anywhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadPath {
    /// The host opens it.
    Writable(GuestPath),
    /// A process in the sandbox opens it.
    Inside(InsidePath),
}

impl ReadPath {
    /// Checks a path as users write it: absolute, or relative to /workspace.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        match GuestPath::parse(text) {
            Ok(path) => Ok(Self::Writable(path)),
            Err(error) => InsidePath::parse(text).map(Self::Inside).map_err(|_| error),
        }
    }

    /// Returns the last part.
    pub fn name(&self) -> &str {
        match self {
            Self::Writable(path) => path.name(),
            Self::Inside(path) => path.name(),
        }
    }
}

impl std::fmt::Display for ReadPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Writable(path) => path.fmt(formatter),
            Self::Inside(path) => path.fmt(formatter),
        }
    }
}
