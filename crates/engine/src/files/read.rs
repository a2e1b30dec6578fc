//! Reading one file in pieces, however large it is and whatever the guest does to it meanwhile.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use super::stat::time;
use super::{FileError, Files, GuestPath, Opened};

/// A part of a file: from `start` to before `end`, or to the file's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub start: u64,
    /// The byte after the last; `None` and what lies behind the file's end mean its end.
    pub end: Option<u64>,
}

/// An open file that is read at constant memory.
///
/// It ends where the file ended when it was opened, so a guest that goes on writing does not keep a
/// reader going. A file that became shorter is an error and not a short answer.
#[derive(Debug)]
pub struct Reader {
    file: File,
    shown: String,
    size: u64,
    mode: u32,
    modified: SystemTime,
    position: u64,
    end: u64,
}

impl Files {
    /// Opens a file for reading, all of it until [`Reader::select`] says otherwise.
    pub fn read(&self, path: &GuestPath) -> Result<Reader, FileError> {
        match self.open(path)? {
            Opened::File(file) => Reader::new(file, path.shown()),
            Opened::Directory(_) => Err(FileError::IsDirectory(path.to_string())),
        }
    }
}

impl Reader {
    pub(super) fn new(file: File, shown: &str) -> Result<Self, FileError> {
        let stat =
            rustix::fs::fstat(&file).map_err(|errno| FileError::of("look at", shown, errno))?;
        let size = stat.st_size as u64;
        Ok(Self {
            file,
            shown: shown.to_owned(),
            size,
            mode: stat.st_mode & 0o777,
            modified: time(stat.st_mtime, stat.st_mtime_nsec),
            position: 0,
            end: size,
        })
    }

    /// Returns the file's size when it was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns its permission bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Returns when it was last changed; the guest can set any time.
    pub fn modified(&self) -> SystemTime {
        self.modified
    }

    /// Returns how many bytes are still to come.
    pub fn left(&self) -> u64 {
        self.end - self.position
    }

    /// Reads only a part of the file. Refused if no byte of it is in the file; an empty file as a
    /// whole is not.
    pub fn select(&mut self, range: Range) -> Result<(), FileError> {
        let end = range.end.unwrap_or(self.size).min(self.size);
        let is_all_of_nothing = range.start == 0 && self.size == 0 && range.end.is_none();
        if range.start >= end && !is_all_of_nothing {
            return Err(FileError::Range { path: self.shown.clone(), size: self.size });
        }
        (self.position, self.end) = (range.start, end);
        Ok(())
    }

    /// Reads the next piece into a buffer that is not empty; 0 at the end.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, FileError> {
        let wanted = buffer.len().min(usize::try_from(self.left()).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        // Never beyond `end`, so that a file which grows is not followed.
        let length = loop {
            match self.file.read_at(&mut buffer[..wanted], self.position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match length.map_err(|error| FileError::of_io("read", &self.shown, error))? {
            0 => Err(FileError::Shrunk(self.shown.clone())),
            length => {
                self.position += length as u64;
                Ok(length)
            }
        }
    }

    pub(super) fn shown(&self) -> &str {
        &self.shown
    }
}
