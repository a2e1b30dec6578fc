//! Inputs of an enclosure: mounted where this process may mount, else found by the zone by path.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use silica_jail::client;
use silica_jail::protocol::{InputMount, Source};

use crate::inputs::{Input, InputContent, InputError, check_kind};

/// An input on its way into an enclosure. Must live until the enclosure is made.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) mount: InputMount,
    pub(super) tree: Option<OwnedFd>,
    _copy: Option<PrivateCopy>,
}

/// Prepares an input for the zone: as a detached mount where this process may make one, else by its
/// path.
///
/// The sandboxes of a privileged zone run as other users. A file that other users may not read is
/// copied to a directory that only this user can enter; the mount of the copy outlives its name.
pub(super) fn prepare(input: &Input, scratch: &Path) -> Result<Prepared, InputError> {
    let shown = || match input.content() {
        InputContent::Host(host) => host.clone(),
        InputContent::Bytes(_) => PathBuf::from(input.name()),
    };
    let failed = |error| InputError::HandOver(shown(), error);
    let privileged = client::is_privileged();
    let (copy, directory) = match input.content() {
        InputContent::Bytes(bytes) => {
            (Some(PrivateCopy::new(&mut &**bytes, scratch).map_err(failed)?), false)
        }
        InputContent::Host(host) => {
            // Once more, close to the use: the file may have been replaced since the request was
            // checked.
            check_kind(host)?;
            let metadata = std::fs::metadata(host).map_err(failed)?;
            let directory = metadata.is_dir();
            // To list a directory and to reach what is in it takes two rights.
            let readable = if directory { 0o005 } else { 0o004 };
            // Without privileges the sandbox has this user's own id, and reads what this user
            // reads.
            if !privileged || metadata.mode() & readable == readable {
                (None, directory)
            } else if directory {
                return Err(InputError::Private(host.clone()));
            } else {
                let mut from = File::open(host).map_err(failed)?;
                (Some(PrivateCopy::new(&mut from, scratch).map_err(failed)?), false)
            }
        }
    };
    let path = copy.as_ref().map_or_else(shown, |copy| copy.0.clone());
    let (tree, source) = if privileged {
        (client::detach(&path, false).map_err(failed)?, Source::Mount)
    } else {
        (None, Source::Path(path))
    };
    let mount = InputMount { name: input.name().to_owned(), source, directory };
    Ok(Prepared { mount, tree, _copy: copy })
}

/// A copy in a directory that only this user can enter; removed on drop.
#[derive(Debug)]
struct PrivateCopy(PathBuf);

impl PrivateCopy {
    fn new(from: &mut dyn io::Read, scratch: &Path) -> io::Result<Self> {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(scratch)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let copy = Self(scratch.join(format!("{}-{number}", std::process::id())));
        // Readable by the sandbox's user, who sees the mount; the directory above keeps out all
        // others.
        let mut output = File::options().write(true).create_new(true).mode(0o444).open(&copy.0)?;
        io::copy(from, &mut output)?;
        Ok(copy)
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next start.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Removes copies left behind by processes that have died.
pub(super) fn sweep(scratch: &Path) {
    for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.split('-').next()?.parse::<u32>().ok());
        // A process id that is in use again only puts the removal off.
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Tried again by the next start.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
