//! Paths as users write them, checked once. Whatever opens a file takes a [`GuestPath`] and no
//! text.

use super::names::{to_bytes, to_text};
use super::{FileError, PLACES};

/// The longest path, in bytes: Linux's own bound.
pub(crate) const PATH_BYTES_MAX: usize = 4096;

/// The longest part of a path, in bytes: Linux's own bound.
pub(crate) const PART_BYTES_MAX: usize = 255;

/// A path inside a sandbox, in one of the writable places, without `.`, `..` or empty parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestPath {
    /// Relative to the sandbox's file system; starts with a place's directory.
    inner: Vec<u8>,
    /// As text; see `names`.
    shown: String,
}

impl GuestPath {
    /// Checks a path as users write it: absolute, or relative to /workspace. A part that is `.`
    /// says nothing and is dropped; `..` could say something else beside links, and is refused.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let outside = || FileError::Outside(text.to_owned());
        // Three bytes of text may stand for one.
        if text.len() > 3 * PATH_BYTES_MAX {
            return Err(outside());
        }
        let trimmed = text.trim_end_matches('/');
        let (base, parts) =
            trimmed.strip_prefix('/').map_or(("/workspace", trimmed), |rest| ("", rest));
        let mut shown = base.to_owned();
        for part in parts.split('/').filter(|part| *part != ".") {
            let name = to_bytes(part);
            if matches!(part, "" | "..") || part.contains('\0') || name.len() > PART_BYTES_MAX {
                return Err(outside());
            }
            shown.push('/');
            // One name has one text, also if the caller escaped what needs none.
            shown.push_str(&to_text(&name));
        }
        if to_bytes(&shown).len() > PATH_BYTES_MAX {
            return Err(outside());
        }
        let (directory, rest) = PLACES
            .iter()
            .find_map(|(directory, place)| {
                let rest = shown.strip_prefix(place)?;
                // `/workspace2` begins like a place, but is not below it.
                (rest.is_empty() || rest.starts_with('/')).then_some((directory, rest))
            })
            .ok_or_else(outside)?;
        let inner = [directory.as_bytes(), &to_bytes(rest)].concat();
        Ok(Self { inner, shown })
    }

    /// Returns the last part.
    pub fn name(&self) -> &str {
        self.shown.rsplit('/').next().unwrap_or_default()
    }

    /// Returns a path below this one, checked as [`GuestPath::parse`] does.
    pub fn join(&self, relative: &str) -> Result<Self, FileError> {
        match relative.trim_end_matches('/') {
            "" => Err(FileError::Outside(relative.to_owned())),
            relative => Self::parse(&format!("{}/{relative}", self.shown)),
        }
    }

    /// Returns the path as the guest sees it.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the path relative to the sandbox's file system.
    pub(super) fn inner(&self) -> &[u8] {
        &self.inner
    }

    /// Returns the directory and the name in it; a place itself has none that could be changed.
    pub(super) fn split(&self) -> Result<(&[u8], &[u8]), FileError> {
        let slash = self.inner.iter().rposition(|byte| *byte == b'/');
        let slash = slash.ok_or_else(|| FileError::Place(self.shown.clone()))?;
        Ok((&self.inner[..slash], &self.inner[slash + 1..]))
    }
}

impl std::fmt::Display for GuestPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.shown)
    }
}
