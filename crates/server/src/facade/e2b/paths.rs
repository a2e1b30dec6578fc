//! Paths as E2B's clients write them: from home, with `~`, `.` and `..` in them.

use silica_engine::{FileError, GuestPath};

/// Home, and where everything starts.
pub(super) const HOME: &str = "/home/user";

/// The same place without anything to resolve.
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

/// A path to files that the host can reach.
pub(super) fn guest(text: &str) -> Result<GuestPath, FileError> {
    GuestPath::parse(&absolute(text))
}
