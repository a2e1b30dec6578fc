//! Watching a directory: what is made, written, moved and removed in it, as it happens.
//!
//! The kernel watches inodes and not names, so events are about the directory that was opened,
//! wherever the guest moves it. A file that the host writes appears whole (`write`); it is reported
//! as created, changed and written, and its hidden name is not reported.

use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::metadata::own_path;
use super::names::{to_bytes, to_text};
use super::walk::read_names;
use super::write::is_hidden;
use super::{DEPTH_MAX, FileError, Files, GuestPath, beneath};

/// The most directories of one watch. Each holds a descriptor open.
const DIRECTORIES_MAX: usize = 256;

/// Names that are reported of a directory that has just appeared.
const NEW_NAMES_MAX: usize = 1000;

/// How much of what happened is taken at a time.
const EVENTS_BYTES: usize = 16 * 1024;

/// The pause between two such reads. A guest that changes files without end has the host look at each of them; so it
/// takes a part of a processor and not all of it.
const EVENTS_PAUSE: Duration = Duration::from_millis(20);

/// How far a watch reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// What is in the directory.
    Directory,
    /// What is in its directories too, those included that are made later.
    Tree,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It appeared, or was moved here.
    Created,
    /// Its content changed.
    Written,
    /// It was removed.
    Removed,
    /// It was moved away.
    Renamed,
    /// Its permissions or times changed.
    Changed,
}

/// An event in a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it happened to, relative to the watched directory; made readable where it is no text.
    pub name: String,
    pub happening: Happening,
}

/// A directory that is watched until this is dropped.
#[derive(Debug)]
pub struct Watch {
    files: Arc<Files>,
    path: GuestPath,
    reach: Reach,
    inotify: AsyncFd<OwnedFd>,
    directories: HashMap<i32, Directory>,
    /// Under which number a file left its hidden name.
    leaving: Option<u32>,
    waiting: VecDeque<Notice>,
    /// When events may be read again.
    rested: Instant,
}

#[derive(Debug)]
struct Directory {
    opened: OwnedFd,
    /// Relative to the watched directory; empty for that itself.
    name: String,
}

/// One event as the kernel delivers it.
struct Raw {
    directory: i32,
    flags: ReadFlags,
    cookie: u32,
    name: String,
}

impl Files {
    /// Watches a directory from now on. Needs a runtime, for the waiting.
    pub fn watch(self: &Arc<Self>, path: &GuestPath, reach: Reach) -> Result<Watch, FileError> {
        let failed = |errno| FileError::of("watch", path.shown(), errno);
        let inotify =
            inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(failed)?;
        let inotify =
            waiting_for(inotify).map_err(|error| FileError::of_io("watch", path.shown(), error))?;
        let mut watch = Watch {
            files: Arc::clone(self),
            path: path.clone(),
            reach,
            inotify,
            directories: HashMap::new(),
            leaving: None,
            waiting: VecDeque::new(),
            rested: Instant::now(),
        };
        watch.add(String::new())?;
        // What was there before is no news.
        watch.waiting.clear();
        Ok(watch)
    }
}

impl Watch {
    /// Waits for the next thing to happen. May be given up and called again.
    pub async fn next(&mut self) -> Result<Notice, FileError> {
        loop {
            if let Some(notice) = self.waiting.pop_front() {
                return Ok(notice);
            }
            tokio::time::sleep_until(self.rested).await;
            let failed = |error| FileError::of_io("watch", self.path.shown(), error);
            let mut ready = self.inotify.readable().await.map_err(failed)?;
            let taken = take(self.inotify.get_ref());
            // More events may wait than one buffer takes. Only a read that finds nothing ends the
            // readiness.
            if matches!(&taken, Ok(events) if events.is_empty()) {
                ready.clear_ready();
            }
            let taken = taken.map_err(|errno| FileError::of("watch", self.path.shown(), errno))?;
            if !taken.is_empty() {
                self.rested = Instant::now() + EVENTS_PAUSE;
            }
            for raw in taken {
                self.note(&raw)?;
            }
        }
    }

    fn note(&mut self, raw: &Raw) -> Result<(), FileError> {
        // The kernel keeps 16384 events by default and drops the rest (inotify(7)). What was
        // dropped is not known, so the caller has to look at the directory again.
        if raw.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return Err(FileError::Missed(self.path.to_string()));
        }
        // The directory is gone and its watch with it. The descriptor must go too, or it keeps the
        // inode.
        if raw.flags.contains(ReadFlags::IGNORED) {
            self.directories.remove(&raw.directory);
            return Ok(());
        }
        let Some(directory) = self.directories.get(&raw.directory) else { return Ok(()) };
        // Without a name, the event is about the watched directory itself.
        if raw.name.is_empty() || is_nameless(&directory.opened, &raw.name) {
            return Ok(());
        }
        if is_hidden(&raw.name) {
            // `write` moves a whole file from its hidden name over another. The cookie ties this
            // event to the one with the real name, which then is a write and no new file.
            if raw.flags.contains(ReadFlags::MOVED_FROM) {
                self.leaving = Some(raw.cookie);
            }
            return Ok(());
        }
        let name = join(&directory.name, &raw.name);
        let replaced = raw.cookie != 0 && self.leaving == Some(raw.cookie);
        let happening = match raw.flags {
            flags if flags.contains(ReadFlags::MOVED_TO) && replaced => Happening::Written,
            flags if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) => {
                Happening::Created
            }
            flags if flags.contains(ReadFlags::MODIFY) => Happening::Written,
            flags if flags.contains(ReadFlags::DELETE) => Happening::Removed,
            flags if flags.contains(ReadFlags::MOVED_FROM) => Happening::Renamed,
            flags if flags.contains(ReadFlags::ATTRIB) => Happening::Changed,
            _ => return Ok(()),
        };
        // A file that `write` links has its content already, and no event says so.
        let appeared_whole =
            raw.flags.contains(ReadFlags::CREATE) && has_content(&directory.opened, &raw.name);
        self.report(&name, happening);
        if appeared_whole {
            // `write` has also set its permissions.
            self.report(&name, Happening::Changed);
            self.report(&name, Happening::Written);
        }
        let is_directory = raw.flags.contains(ReadFlags::ISDIR);
        if is_directory && happening == Happening::Created && self.reach == Reach::Tree {
            return self.follow(name);
        }
        Ok(())
    }

    fn report(&mut self, name: &str, happening: Happening) {
        let notice = Notice { name: name.to_owned(), happening };
        // Ten writes in a row that were not delivered yet are one.
        if self.waiting.back() != Some(&notice) {
            self.waiting.push_back(notice);
        }
    }

    /// Watches a directory that has just appeared, if it is still there.
    fn follow(&mut self, name: String) -> Result<(), FileError> {
        match self.add(name) {
            Err(error) if error.is_of_one_entry() => Ok(()),
            added => added,
        }
    }

    /// Watches a directory, and what is below it if that is wanted; reports what is in it.
    fn add(&mut self, name: String) -> Result<(), FileError> {
        let mut open = vec![name];
        while let Some(name) = open.pop() {
            // The guest makes the directories. Each takes a descriptor and one of the watches that
            // the kernel allows the host's user.
            if self.directories.len() >= DIRECTORIES_MAX || name.split('/').count() > DEPTH_MAX {
                return Err(FileError::TooMuch(self.path.to_string()));
            }
            for (name, kind) in self.add_one(name)? {
                self.report(&name, Happening::Created);
                if kind == FileType::Directory && self.reach == Reach::Tree {
                    open.push(name);
                }
            }
        }
        Ok(())
    }

    fn add_one(&mut self, name: String) -> Result<Vec<(String, FileType)>, FileError> {
        let path = if name.is_empty() { self.path.clone() } else { self.path.join(&name)? };
        let files = Arc::clone(&self.files);
        let (opened, number, inside) = files.guest.act(|| {
            let failed = |errno| FileError::of("watch", path.shown(), errno);
            let opened = beneath::open_directory(files.as_fd(), path.inner(), path.shown())?;
            let wanted = WatchFlags::CREATE
                | WatchFlags::MODIFY
                | WatchFlags::DELETE
                | WatchFlags::MOVE
                | WatchFlags::ATTRIB
                | WatchFlags::ONLYDIR;
            // inotify_add_watch(2) takes a path alone. That of the descriptor leads to what was
            // opened, whatever its name leads to now.
            let own = own_path(opened.as_fd());
            let number = inotify::add_watch(self.inotify.get_ref(), own, wanted).map_err(failed)?;
            // Read after the watch is set: what appears in between is then seen twice and not
            // missed (inotify(7)).
            let mut buffer = Vec::new();
            let inside = read_names(opened.as_fd(), NEW_NAMES_MAX, &mut buffer).map_err(failed)?;
            Ok((opened, number, inside.list))
        })?;
        let found = inside.iter().filter_map(|entry| {
            let text = to_text(entry.to_bytes());
            let is_wanted = !is_hidden(&text);
            let look = || rustix::fs::statat(&opened, entry, AtFlags::SYMLINK_NOFOLLOW).ok();
            let stat = is_wanted.then(look).flatten()?;
            Some((join(&name, &text), FileType::from_raw_mode(stat.st_mode)))
        });
        let found = found.collect();
        self.directories.insert(number, Directory { opened, name });
        Ok(found)
    }
}

#[expect(
    deprecated,
    reason = "an owned descriptor stays the same and open for as long as it is held"
)]
fn waiting_for(inotify: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(inotify)
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Returns whether a name is that of a file without one, which the kernel calls `#` and its inode.
fn is_nameless(directory: &OwnedFd, name: &str) -> bool {
    let numbered = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix('#').is_some_and(numbered)
        && rustix::fs::statat(directory, &*to_bytes(name), AtFlags::SYMLINK_NOFOLLOW).is_err()
}

fn has_content(directory: &OwnedFd, name: &str) -> bool {
    rustix::fs::statat(directory, &*to_bytes(name), AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size > 0
    })
}

/// Takes the events that have come so far, up to a buffer of them.
fn take(inotify: &OwnedFd) -> Result<Vec<Raw>, Errno> {
    let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
    let mut reader = inotify::Reader::new(inotify, &mut buffer);
    let mut events = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => events.push(Raw {
                directory: event.wd(),
                flags: event.events(),
                cookie: event.cookie(),
                name: event
                    .file_name()
                    .map(|name| to_text(name.to_bytes()).into_owned())
                    .unwrap_or_default(),
            }),
            Err(Errno::AGAIN) => return Ok(events),
            Err(errno) => return Err(errno),
        }
        // The rest is taken when this has been delivered.
        if reader.is_buffer_empty() {
            return Ok(events);
        }
    }
}
