//! Listing a directory, or a few levels of one. Opens directories alone, and is bounded in entries,
//! levels and bytes of paths.

use std::os::fd::AsFd;

use super::names::to_text;
use super::stat::link_text;
use super::survey::{Bounds, Seen, Then, shown, survey};
use super::{DEPTH_MAX, ENTRIES_MAX, FileError, FileKind, FileStat, Files, GuestPath, beneath};

/// Bytes of all paths in one listing.
const PATH_BYTES_MAX: usize = 16 << 20;

/// How much of a link's text a listing holds; all of it is in [`Files::stat`].
const TARGET_CHARS_MAX: usize = 256;

/// One entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As the guest sees it.
    pub path: String,
    /// Whether the path can be used: one that is too long is only shown.
    pub usable: bool,
    pub stat: FileStat,
}

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by path, part by part.
    pub entries: Vec<Listed>,
    /// Whether there was more than one listing holds. What is in a directory that the guest has
    /// closed to itself is not listed.
    pub truncated: bool,
}

impl Listed {
    /// Returns the last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

impl Files {
    /// Lists a directory; with a depth above 1, what is in its directories too. The depth is at
    /// most [`DEPTH_MAX`].
    pub fn list(&self, path: &GuestPath, depth: usize) -> Result<Listing, FileError> {
        let depth = depth.clamp(1, DEPTH_MAX);
        let bounds = Bounds { depth, entries: ENTRIES_MAX, path_bytes: PATH_BYTES_MAX };
        self.guest.act(|| {
            let directory = beneath::open_directory(self.as_fd(), path.inner(), path.shown())?;
            let from = vec![(directory, to_text(path.inner()).into_owned())];
            let mut entries = Vec::new();
            let left_out = survey(self.as_fd(), from, bounds, |seen| {
                entries.push(self.listed(&seen));
                Then::Enter
            });
            // By parts and not by bytes, or `a-b` would come between `a` and `a/b`.
            entries.sort_by(|a: &Listed, b| a.path.split('/').cmp(b.path.split('/')));
            let truncated = left_out.entries || (left_out.levels && depth == DEPTH_MAX);
            Ok(Listing { entries, truncated })
        })
    }

    fn listed(&self, seen: &Seen<'_>) -> Listed {
        let mut stat = FileStat::of(&seen.stat, self.guest);
        if stat.kind == FileKind::Symlink {
            stat.target = link_text(seen.directory, seen.name)
                .map(|text| text.chars().take(TARGET_CHARS_MAX).collect());
        }
        let path = shown(&seen.inner);
        let usable = GuestPath::parse(&path).is_ok();
        Listed { path, usable, stat }
    }
}
