//! A directory as a tar stream, at constant memory.
//!
//! Headers are made by hand from what was opened. The crate's own builder looks at names, and ends
//! the archive properly even after an error, so that half of one would look like all of it.

use std::ffi::CString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::SystemTime;

use rustix::fs::{AtFlags, FileType};
use tar::{EntryType, Header};

use super::names::to_text;
use super::walk::{Step, Walk};
use super::{CHUNK_BYTES, FileError, Files, GuestPath, Opened, Reader, beneath};

/// The unit of a tar archive.
const BLOCK_BYTES: usize = 512;

/// The longest name that fits into a header itself, with the zero behind it.
const NAME_BYTES_MAX: usize = 99;

/// The sandbox's user, as the guest knows it.
const USER: (u64, &str) = (1000, "user");

/// What an archive holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// Files and directories.
    pub entries: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Links, special files and files that may not be read.
    pub left_out: usize,
}

impl Files {
    /// Writes a directory's files as a tar archive, with names relative to it. What is written is
    /// a whole archive only if this succeeds.
    pub fn archive(&self, path: &GuestPath, to: &mut dyn Write) -> Result<Archived, FileError> {
        let opened = match self.open(path)? {
            Opened::Directory(opened) => opened,
            Opened::File(_) => return Err(FileError::NotDirectory(path.to_string())),
        };
        self.check(path)?;
        let mut walk = Walk::new(opened, path.shown())?;
        let mut tar = Tar { to, done: Archived::default(), bytes_max: self.copy_bytes_max };
        while let Some(step) = walk.next() {
            if let Step::Entry(name) = step {
                self.archive_entry(&mut walk, name, path, &mut tar)?;
            }
        }
        tar.end()
    }

    /// Fails if a directory holds more than an archive may. Found out before the first byte is
    /// written, so that a caller can refuse instead of breaking off. A guest that adds files
    /// meanwhile still meets the bounds on the way.
    fn check(&self, path: &GuestPath) -> Result<(), FileError> {
        self.guest.act(|| {
            let directory = beneath::open_directory(self.as_fd(), path.inner(), path.shown())?;
            let mut walk = Walk::new(directory, path.shown())?;
            let mut bytes: u64 = 0;
            while let Some(step) = walk.next() {
                let Step::Entry(name) = step else { continue };
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let Ok(stat) = rustix::fs::statat(walk.directory(), &name, flags) else { continue };
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => bytes = bytes.saturating_add(stat.st_size as u64),
                    FileType::Directory => {
                        let shown = path.shown();
                        match beneath::open_directory(walk.directory(), &name, shown) {
                            Ok(next) => walk.enter(next, name)?,
                            Err(error) if error.is_of_one_entry() => {}
                            Err(error) => return Err(error),
                        }
                    }
                    _ => {}
                }
            }
            if bytes > self.copy_bytes_max {
                let (path, bytes_max) = (path.to_string(), self.copy_bytes_max);
                return Err(FileError::TooLarge { path, bytes_max });
            }
            Ok(())
        })
    }

    fn archive_entry(
        &self,
        walk: &mut Walk,
        name: CString,
        path: &GuestPath,
        tar: &mut Tar<'_>,
    ) -> Result<(), FileError> {
        let relative = walk.relative(&name);
        let shown = format!("{path}/{}", to_text(&relative));
        match self.guest.act(|| beneath::open(walk.directory(), &name, &shown)) {
            Ok(Opened::File(file)) => tar.file(&relative, Reader::new(file, &shown)?),
            Ok(Opened::Directory(next)) => {
                let stat = rustix::fs::fstat(&next)
                    .map_err(|errno| FileError::of("look at", &shown, errno))?;
                tar.directory(&relative, stat.st_mode, stat.st_mtime)?;
                walk.enter(next, name)
            }
            Err(error) if error.is_of_one_entry() => {
                tar.done.left_out += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// An archive being written.
struct Tar<'to> {
    to: &'to mut dyn Write,
    done: Archived,
    bytes_max: u64,
}

impl Tar<'_> {
    fn file(&mut self, name: &[u8], mut from: Reader) -> Result<(), FileError> {
        // By the size that a file claims: a sparse file of a terabyte takes no room in the sandbox.
        let bytes = self.done.bytes.saturating_add(from.size());
        if bytes > self.bytes_max {
            let path = from.shown().to_owned();
            return Err(FileError::TooLarge { path, bytes_max: self.bytes_max });
        }
        let modified = from.modified().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = modified.map_or(0, |since| since.as_secs());
        // The header promises this many bytes, and the reader gives exactly as many: it stops there
        // if the file has grown, and fails if it has shrunk.
        self.header(name, EntryType::Regular, from.size(), from.mode(), seconds)?;
        let mut buffer = vec![0; CHUNK_BYTES.min(from.size() as usize)];
        loop {
            match from.read(&mut buffer)? {
                0 => break,
                length => self.put(&buffer[..length])?,
            }
        }
        self.pad(from.size())?;
        self.done.bytes = bytes;
        Ok(())
    }

    fn directory(&mut self, name: &[u8], mode: u32, modified: i64) -> Result<(), FileError> {
        let modified = u64::try_from(modified).unwrap_or(0);
        self.header(&[name, b"/"].concat(), EntryType::Directory, 0, mode & 0o777, modified)
    }

    fn header(
        &mut self,
        name: &[u8],
        kind: EntryType,
        size: u64,
        mode: u32,
        modified: u64,
    ) -> Result<(), FileError> {
        if name.len() > NAME_BYTES_MAX {
            // As GNU tar does, and all others read: the name as the content of an entry before.
            let length = name.len() as u64 + 1;
            self.put(header(b"././@LongLink", EntryType::GNULongName, length, 0, 0).as_bytes())?;
            self.put(name)?;
            self.put(&[0])?;
            self.pad(length)?;
        }
        self.put(header(name, kind, size, mode, modified).as_bytes())?;
        self.done.entries += 1;
        Ok(())
    }

    fn end(mut self) -> Result<Archived, FileError> {
        // Two empty blocks end an archive (tar(5)). They are written only here, so a stream that
        // breaks off is seen to be cut.
        self.put(&[0; 2 * BLOCK_BYTES])?;
        self.to.flush().map_err(FileError::Output)?;
        Ok(self.done)
    }

    /// Fills the last block of a content.
    fn pad(&mut self, length: u64) -> Result<(), FileError> {
        let over = (length % BLOCK_BYTES as u64) as usize;
        let missing = (BLOCK_BYTES - over) % BLOCK_BYTES;
        self.put(&[0; BLOCK_BYTES][..missing])
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.to.write_all(bytes).map_err(|error: io::Error| FileError::Output(error))
    }
}

/// Makes a header with as much of the name as fits.
fn header(name: &[u8], kind: EntryType, size: u64, mode: u32, modified: u64) -> Header {
    let mut header = Header::new_gnu();
    let length = name.len().min(NAME_BYTES_MAX);
    header.as_old_mut().name[..length].copy_from_slice(&name[..length]);
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(modified);
    // The id as seen inside: the host's number of this user means nothing where the archive goes.
    header.set_uid(USER.0);
    header.set_gid(USER.0);
    // The name is shorter than its field.
    let _ = header.set_username(USER.1).and_then(|()| header.set_groupname(USER.1));
    header.set_cksum();
    header
}
