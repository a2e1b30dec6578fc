//! Looking at everything below some directories, shallow ones first, without opening a file.
//!
//! What is nearest the top is seen before a bound is hit, which is what people look for. A
//! directory further down is opened by its path, through `beneath` like any other: if the guest has
//! swapped it meanwhile, it is another directory of the sandbox or it is refused.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Stat};

use super::names::{to_bytes, to_text};
use super::{PLACES, beneath, walk};

/// How much is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Levels; 1 for what is directly in the first directories.
    pub(super) depth: usize,
    pub(super) entries: usize,
    /// Bytes of all paths together: a guest could make thousands that are 4 KiB long.
    pub(super) path_bytes: usize,
}

/// What a survey left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// There was more than the bounds allow, or a directory could not be read for no fault of its
    /// own.
    pub(super) entries: bool,
    /// There were directories below the last level.
    pub(super) levels: bool,
}

/// Something in a directory.
pub(super) struct Seen<'survey> {
    pub(super) directory: BorrowedFd<'survey>,
    pub(super) name: &'survey CStr,
    pub(super) stat: Stat,
    /// Its path in the sandbox's file system, as text; see `names`.
    pub(super) inner: String,
}

/// What to do with something that was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// If it is a directory, look into it.
    Enter,
    Pass,
}

struct Pending {
    opened: Option<OwnedFd>,
    inner: String,
    depth: usize,
}

/// Goes through directories, each given with its path in the sandbox's file system.
pub(super) fn survey(
    root: BorrowedFd<'_>,
    from: Vec<(OwnedFd, String)>,
    bounds: Bounds,
    mut visit: impl FnMut(Seen<'_>) -> Then,
) -> LeftOut {
    let (mut left, mut left_out) = (bounds, LeftOut::default());
    let mut buffer = Vec::new();
    let mut pending: VecDeque<Pending> = from
        .into_iter()
        .map(|(opened, inner)| Pending { opened: Some(opened), inner, depth: 1 })
        .collect();
    while let Some(Pending { opened, inner, depth }) = pending.pop_front() {
        let opened = match opened {
            Some(opened) => Ok(opened),
            // Only when its turn comes: every directory that waits would otherwise hold a
            // descriptor.
            None => beneath::open_directory(root, &*to_bytes(&inner), &inner),
        };
        let directory = match opened {
            Ok(directory) => directory,
            // Gone or swapped since it was seen, or closed by the guest, which then is its wish.
            Err(error) if error.is_of_one_entry() => continue,
            Err(_) => {
                left_out.entries = true;
                continue;
            }
        };
        let Ok(names) = walk::read_names(directory.as_fd(), left.entries, &mut buffer) else {
            left_out.entries = true;
            continue;
        };
        left.entries -= names.list.len();
        left_out.entries |= !names.complete;
        for name in &names.list {
            let Some(seen) = look(directory.as_fd(), &inner, name) else { continue };
            // By the length of the whole path, which is what a caller keeps of each entry.
            let Some(rest) = left.path_bytes.checked_sub(seen.inner.len()) else {
                left_out.entries = true;
                return left_out;
            };
            left.path_bytes = rest;
            let child = is_directory(&seen.stat).then(|| seen.inner.clone());
            let (Then::Enter, Some(inner)) = (visit(seen), child) else { continue };
            if depth < bounds.depth {
                pending.push_back(Pending { opened: None, inner, depth: depth + 1 });
            } else {
                left_out.levels = true;
            }
        }
    }
    left_out
}

/// Returns the path the guest sees for one in the sandbox's file system.
pub(super) fn shown(inner: &str) -> String {
    let (directory, rest) = inner.split_at(inner.find('/').unwrap_or(inner.len()));
    let place = PLACES.iter().find(|(name, _)| *name == directory);
    format!("{}{rest}", place.map_or(directory, |(_, place)| place))
}

/// Looks at one entry; `None` if it is gone already.
fn look<'survey>(
    directory: BorrowedFd<'survey>,
    parent: &str,
    name: &'survey CStr,
) -> Option<Seen<'survey>> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let inner = format!("{parent}/{}", to_text(name.to_bytes()));
    Some(Seen { directory, name, stat, inner })
}

pub(super) fn is_directory(stat: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir()
}
