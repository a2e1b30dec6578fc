//! Paths as E2B's clients write them: from home, with `~`, `.` and `..` in them.

use silica_engine::{FileError, GuestPath, ReadPath};

/// The home directory, to which paths are relative.
pub(super) const HOME: &str = "/home/user";

/// Returns the absolute path without `~`, `.` and `..`.
pub(super) fn absolute(text: &str) -> String {
    let from_home = match text {
        "" | "~" => HOME.to_owned(),
        text if text.starts_with('/') => text.to_owned(),
        text => format!("{HOME}/{}", text.strip_prefix("~/").unwrap_or(text)),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in from_home.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Parses a path in the directories where files can be changed.
pub(super) fn guest(text: &str) -> Result<GuestPath, FileError> {
    GuestPath::parse(&absolute(text))
}

/// Parses a path to something that is only read.
pub(super) fn readable(text: &str) -> Result<ReadPath, FileError> {
    ReadPath::parse(&absolute(text))
}
