//! Which files a cell made, changed and removed: two scans compared.
//!
//! This runs after every cell, so a scan asks the kernel for little: one open, one read and one
//! close of each directory, one look at each entry, and a single call where the guest has made
//! nothing. Directories are always read again: their times have the grain of a clock tick on
//! kernels before 6.13, and a file made within the tick of the last scan would go unseen. The same
//! holds there for a file rewritten in that tick with the same size.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use rustix::fs::{FileType, Stat};

use super::survey::{Bounds, Seen, Then, shown, survey};
use super::{DEPTH_MAX, FileError, Files, beneath};

/// The most entries one scan looks at.
pub const SCAN_ENTRIES_MAX: usize = 10_000;

/// The most entries of a scan made in passing, by a thread that others wait for.
const GLANCE_ENTRIES_MAX: usize = 100;

/// Bytes of all paths in one scan, which are kept until the next.
const SCAN_PATH_BYTES_MAX: usize = 4 << 20;

/// The places that are scanned. Files in /tmp are not reported.
const SCANNED: [&str; 2] = ["workspace", "home"];

/// The home directory in the sandbox's file system. Hidden directories in it belong to programs.
const HOME: &str = "home/";

/// Where Python keeps compiled modules.
const COMPILED: &str = "__pycache__";

/// The files of a sandbox at one moment.
#[derive(Debug)]
pub struct Snapshot {
    /// By path in the sandbox's file system.
    files: BTreeMap<String, Stamp>,
    complete: bool,
}

/// What differs if a file does. The guest can set one of the times, but not the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, u64),
    touched: (i64, u64),
}

/// A file that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// As the guest sees it.
    pub path: String,
    /// Its size; of one that was removed, the last known.
    pub size: u64,
}

/// What happened to the regular files in /workspace and /home/user, each list sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Were not there before.
    pub created: Vec<ChangedFile>,
    /// Were there, and were written to, replaced or touched.
    pub changed: Vec<ChangedFile>,
    /// Are not there any more.
    pub removed: Vec<ChangedFile>,
    /// Whether a scan did not see everything. Then what it did not see is in no list, and lists
    /// that would be guesses are empty.
    pub truncated: bool,
}

impl Changes {
    /// Returns how many bytes of memory it takes.
    pub fn bytes(&self) -> u64 {
        let files = self.created.iter().chain(&self.changed).chain(&self.removed);
        files.map(|file| (size_of::<ChangedFile>() + file.path.len()) as u64).sum()
    }

    /// Returns that something changed, without saying what.
    pub fn left_out() -> Self {
        Self { truncated: true, ..Self::default() }
    }
}

impl Snapshot {
    /// Returns about how many bytes of memory it takes.
    pub fn bytes(&self) -> u64 {
        let entry = size_of::<String>() + size_of::<Stamp>();
        self.files.keys().map(|path| (entry + path.len()) as u64).sum()
    }
}

impl Files {
    /// Takes a snapshot of the files.
    pub fn snapshot(&self) -> Result<Snapshot, FileError> {
        if self.is_bare() {
            return Ok(Snapshot::NOTHING);
        }
        self.guest.act(|| Ok(self.scan(SCAN_ENTRIES_MAX)))
    }

    /// Takes a snapshot if there are only a few files: it takes no longer than handing the work to
    /// another thread.
    pub fn glance(&self) -> Result<Option<Snapshot>, FileError> {
        if self.is_bare() {
            return Ok(Some(Snapshot::NOTHING));
        }
        // If there are more files, the work so far is lost. A hundred entries take no longer than
        // the hop to another thread, which most cells are spared.
        let seen = self.guest.act(|| Ok(self.scan(GLANCE_ENTRIES_MAX)))?;
        Ok(seen.complete.then_some(seen))
    }

    /// Returns whether the guest has no file at all, not even one without a name. Most cells leave
    /// none, and the kernel keeps the count.
    fn is_bare(&self) -> bool {
        self.inodes_when_empty == Some(self.space().1)
    }

    fn scan(&self, entries: usize) -> Snapshot {
        let mut files = BTreeMap::new();
        let mut from = Vec::new();
        for place in SCANNED {
            if let Ok(directory) = beneath::open_directory(self.as_fd(), place, place) {
                from.push((directory, place.to_owned()));
            }
        }
        // A guest may remove or close even these. What was not read is then not known, and not
        // empty.
        let all_open = from.len() == SCANNED.len();
        let bounds = Bounds { depth: DEPTH_MAX, entries, path_bytes: SCAN_PATH_BYTES_MAX };
        let left_out = survey(self.as_fd(), from, bounds, |seen| {
            let then = if is_skipped(&seen) { Then::Pass } else { Then::Enter };
            if FileType::from_raw_mode(seen.stat.st_mode).is_file() {
                files.insert(seen.inner, Stamp::of(&seen.stat));
            }
            then
        });
        Snapshot { files, complete: all_open && !left_out.entries && !left_out.levels }
    }
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: stat.st_size as u64,
            // `utimensat` sets the first time; the second is the kernel's alone (inode(7)).
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            touched: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

fn is_skipped(seen: &Seen<'_>) -> bool {
    let in_home = seen.inner.strip_prefix(HOME);
    in_home.is_some_and(|rest| rest.starts_with('.') && !rest.contains('/'))
        || seen.name.to_bytes() == COMPILED.as_bytes()
}

impl Snapshot {
    /// A sandbox without files.
    const NOTHING: Self = Self { files: BTreeMap::new(), complete: true };

    /// Returns what changed between an earlier snapshot and this one.
    pub fn since(&self, before: &Self) -> Changes {
        compare(before, self)
    }
}

fn compare(before: &Snapshot, now: &Snapshot) -> Changes {
    let file =
        |(path, stamp): (&String, &Stamp)| ChangedFile { path: shown(path), size: stamp.size };
    let mut changes =
        Changes { truncated: !before.complete || !now.complete, ..Changes::default() };
    for (path, stamp) in &now.files {
        match before.files.get(path) {
            Some(old) if old == stamp => {}
            Some(_) => changes.changed.push(file((path, stamp))),
            // If the scan before missed some, this may be one of them.
            None if before.complete => changes.created.push(file((path, stamp))),
            None => {}
        }
    }
    // A file that this scan did not reach may still be there.
    if now.complete {
        let gone = before.files.iter().filter(|(path, _)| !now.files.contains_key(*path));
        changes.removed = gone.map(file).collect();
    }
    changes
}
