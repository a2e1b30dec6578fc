//! Copying a file or a directory out to the host. Reads as the guest, writes as the host, and
//! follows no link on either side.
//! Tests: `tests/it/engine/outputs.rs`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::names::to_text;
use super::walk::{Step, Walk};
use super::{CHUNK_BYTES, FileError, Files, GuestPath, Opened, Reader, beneath};

impl Files {
    /// Copies a file or directory to the host and returns how many bytes that were. Links and
    /// special files inside a directory are left out; as the path itself they are an error.
    pub fn copy_out(&self, path: &GuestPath, target: &Path) -> Result<u64, FileError> {
        let mut copy = Copy { bytes_max: self.copy_bytes_max, bytes_left: self.copy_bytes_max };
        match self.open(path)? {
            Opened::File(file) => copy.file(Reader::new(file, path.shown())?, target)?,
            Opened::Directory(directory) => {
                self.copy_tree(Walk::new(directory, path.shown())?, path, target, &mut copy)?;
            }
        }
        Ok(copy.bytes_max - copy.bytes_left)
    }

    fn copy_tree(
        &self,
        mut walk: Walk,
        path: &GuestPath,
        target: &Path,
        copy: &mut Copy,
    ) -> Result<(), FileError> {
        make_directory(target)?;
        while let Some(step) = walk.next() {
            let Step::Entry(name) = step else { continue };
            let relative = walk.relative(&name);
            let shown = format!("{path}/{}", to_text(&relative));
            let target = target.join(OsStr::from_bytes(&relative));
            // Only the opening happens as the guest. The target is the host's, and the guest's user
            // may not write it.
            match self.guest.act(|| beneath::open(walk.directory(), &name, &shown)) {
                Ok(Opened::File(file)) => copy.file(Reader::new(file, &shown)?, &target)?,
                Ok(Opened::Directory(next)) => {
                    make_directory(&target)?;
                    walk.enter(next, name)?;
                }
                Err(error) if error.is_of_one_entry() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The bytes that a copy may take of the host, and those that are left of them.
struct Copy {
    bytes_max: u64,
    bytes_left: u64,
}

impl Copy {
    /// Copies into a new file beside the target, then moves it there: never through a link on the
    /// host.
    fn file(&mut self, mut from: Reader, target: &Path) -> Result<(), FileError> {
        let failed = |error: io::Error| FileError::Write(target.to_owned(), error);
        let rest = self.bytes_left.checked_sub(from.size());
        self.bytes_left = rest.ok_or_else(|| FileError::TooLarge {
            path: from.shown().to_owned(),
            bytes_max: self.bytes_max,
        })?;
        let mut partial = target.as_os_str().to_owned();
        partial.push(format!(".silica-{}", std::process::id()));
        let partial = Path::new(&partial);
        // With O_EXCL, which follows no link at the end (open(2)), and with a mode of our own: what
        // a guest marks as set-user-id is not so on the host.
        let mut output =
            File::options().write(true).create_new(true).open(partial).map_err(failed)?;
        let copied = copy_bytes(&mut from, &mut output, target)
            .and_then(|()| std::fs::rename(partial, target).map_err(failed));
        if copied.is_err() {
            // The copy is useless; that it may stay behind does not change the error.
            let _ = std::fs::remove_file(partial);
        }
        copied
    }
}

fn copy_bytes(from: &mut Reader, to: &mut File, target: &Path) -> Result<(), FileError> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..length])
            .map_err(|error| FileError::Write(target.to_owned(), error))?;
    }
}

fn make_directory(target: &Path) -> Result<(), FileError> {
    match std::fs::create_dir(target) {
        // A link to a directory does not count, or the copy would go wherever it leads.
        Err(_) if target.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) => Ok(()),
        made => made.map_err(|error| FileError::Write(target.to_owned(), error)),
    }
}
