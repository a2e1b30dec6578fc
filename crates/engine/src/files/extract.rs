//! Unpacking an uploaded tar archive, every byte of which may be hostile.
//!
//! The crate's reader is used for the blocks alone. Long names are read here, because the crate
//! takes them into memory however long they say they are. A name becomes a file only as a
//! [`GuestPath`] and through [`Files::write`], so an archive can do what a series of uploads can,
//! and no more.

use std::io::Read;

use tar::{Archive, Entry, EntryType, PaxExtensions};

use super::names::to_text;
use super::{
    CHUNK_BYTES, ENTRIES_MAX, Existing, FILE_MODE_DEFAULT, FileError, Files, GuestPath, Parents,
    WriteOptions,
};

/// The longest name in an extension of a header, with room for a zero.
// PATH_MAX: no longer name could be opened.
const LONG_NAME_BYTES_MAX: u64 = 4097;

/// The longest extension of a header in the manner of POSIX (pax).
const PAX_BYTES_MAX: u64 = 64 * 1024;

/// How many names of what was left out are kept.
const LEFT_OUT_NAMES_MAX: usize = 16;

/// How much of a name is shown.
const SHOWN_CHARS_MAX: usize = 200;

/// What came out of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    /// Files that were written, counting again those that were replaced.
    pub files: usize,
    pub bytes: u64,
    /// Links, devices and other entries that are neither file nor directory.
    pub left_out: usize,
    /// The first names of those.
    pub left_out_names: Vec<String>,
}

impl Files {
    /// Unpacks a tar archive into a directory, which is made if it is not there. At most
    /// `bytes_max` bytes of content and [`ENTRIES_MAX`] entries are taken.
    ///
    /// Names that lead out, sparse files and damage end it with an error; what was unpacked before
    /// stays. Links and devices are left out and counted.
    pub fn extract(
        &self,
        into: &GuestPath,
        from: &mut dyn Read,
        bytes_max: u64,
    ) -> Result<Extracted, FileError> {
        self.make_directory(into, Parents::Create)?;
        let mut archive = Archive::new(from);
        let mut unpacking = Unpacking {
            files: self,
            into,
            bytes_max,
            bytes_left: bytes_max,
            long_name: None,
            buffer: vec![0; CHUNK_BYTES],
            done: Extracted::default(),
        };
        let entries = archive.entries().map_err(FileError::Archive)?;
        // Raw, so that the crate hands out extensions as entries instead of reading them into
        // memory.
        for (index, entry) in entries.raw(true).enumerate() {
            if index == ENTRIES_MAX {
                return Err(FileError::TooMuch(into.to_string()));
            }
            unpacking.entry(entry.map_err(FileError::Archive)?)?;
        }
        Ok(unpacking.done)
    }
}

/// An archive being unpacked.
struct Unpacking<'files> {
    files: &'files Files,
    into: &'files GuestPath,
    bytes_max: u64,
    bytes_left: u64,
    /// The name of the next entry, if one was given before its header.
    long_name: Option<Vec<u8>>,
    buffer: Vec<u8>,
    done: Extracted,
}

impl Unpacking<'_> {
    fn entry<R: Read>(&mut self, mut entry: Entry<'_, R>) -> Result<(), FileError> {
        // What is left out has to be read over as well.
        let rest = self.bytes_left.checked_sub(entry.size());
        self.bytes_left = rest.ok_or_else(|| FileError::TooLarge {
            path: self.into.to_string(),
            bytes_max: self.bytes_max,
        })?;
        match entry.header().entry_type() {
            EntryType::GNULongName => {
                let name = read_whole(&mut entry, LONG_NAME_BYTES_MAX)?;
                // GNU tar ends the name with a zero.
                let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
                self.take_long_name(name[..end].to_vec())
            }
            EntryType::XHeader => {
                let records = read_whole(&mut entry, PAX_BYTES_MAX)?;
                match pax_path(&records)? {
                    Some(name) => self.take_long_name(name),
                    None => Ok(()),
                }
            }
            // Of the link that follows, and for all that follow: neither says where a file goes.
            EntryType::GNULongLink | EntryType::XGlobalHeader => Ok(()),
            kind => {
                let name = self.long_name.take();
                let name = name.unwrap_or_else(|| entry.header().path_bytes().into_owned());
                self.member(kind, &name, entry)
            }
        }
    }

    fn take_long_name(&mut self, name: Vec<u8>) -> Result<(), FileError> {
        match self.long_name.replace(name) {
            None => Ok(()),
            // Readers of tar differ in which of two names holds. What a scanner let pass must not
            // become another file here.
            Some(first) => Err(refused(&first, "two names are given for one entry")),
        }
    }

    fn member<R: Read>(
        &mut self,
        kind: EntryType,
        name: &[u8],
        entry: Entry<'_, R>,
    ) -> Result<(), FileError> {
        // The oldest format has no type for directories: there a name that ends in a slash is one
        // (tar(5)).
        let is_folder = kind.is_dir() || (kind.is_file() && name.ends_with(b"/"));
        match kind {
            EntryType::GNUSparse => Err(refused(name, "it is a sparse file")),
            EntryType::Regular | EntryType::Continuous | EntryType::Directory => {
                match self.target(name)? {
                    None if is_folder => Ok(()),
                    None => Err(refused(name, "it has no name")),
                    Some(path) if is_folder => {
                        self.files.make_directory(&path, Parents::Create).map(drop)
                    }
                    Some(path) => self.file(&path, name, entry),
                }
            }
            _ => {
                self.leave_out(name);
                Ok(())
            }
        }
    }

    /// Returns where an entry goes; `None` for the directory itself.
    fn target(&self, name: &[u8]) -> Result<Option<GuestPath>, FileError> {
        let joined = self
            .into
            .join(&to_text(name))
            .map_err(|_| refused(name, "its name leads out or is no path"))?;
        // `.` is what `tar c .` begins with.
        Ok((joined != *self.into).then_some(joined))
    }

    fn file<R: Read>(
        &mut self,
        path: &GuestPath,
        name: &[u8],
        mut entry: Entry<'_, R>,
    ) -> Result<(), FileError> {
        let size = entry.size();
        let options = WriteOptions {
            // `Files::write` takes the permission bits alone, so no set-user-id bit comes out of an
            // archive.
            mode: entry.header().mode().unwrap_or(FILE_MODE_DEFAULT),
            parents: Parents::Create,
            existing: Existing::Replace,
            bytes_max: size,
        };
        let mut writer = self.files.write(path, &options)?;
        loop {
            let length = entry.read(&mut self.buffer).map_err(FileError::Archive)?;
            if length == 0 {
                break;
            }
            writer.write(&self.buffer[..length])?;
        }
        // The crate ends a read early if the archive does. Half a file must not get its name.
        if writer.written() != size {
            return Err(refused(name, "the archive ends in the middle of it"));
        }
        self.done.bytes += writer.finish()?;
        self.done.files += 1;
        Ok(())
    }

    fn leave_out(&mut self, name: &[u8]) {
        self.done.left_out += 1;
        if self.done.left_out_names.len() < LEFT_OUT_NAMES_MAX {
            self.done.left_out_names.push(readable(name));
        }
    }
}

/// Reads the content of an extension, which must be whole and not longer than this.
fn read_whole<R: Read>(entry: &mut Entry<'_, R>, most: u64) -> Result<Vec<u8>, FileError> {
    let (size, mut content) = (entry.size(), Vec::new());
    let name = entry.header().path_bytes().into_owned();
    // By the header's claim, before a byte is read into memory.
    if size > most {
        return Err(refused(&name, "it is too long"));
    }
    entry.read_to_end(&mut content).map_err(FileError::Archive)?;
    if content.len() as u64 != size {
        return Err(refused(&name, "the archive ends in the middle of it"));
    }
    Ok(content)
}

/// Returns the path among an entry's POSIX records. A size there would not be the header's, by
/// which we read, and records of a sparse file mean that the content is none.
fn pax_path(records: &[u8]) -> Result<Option<Vec<u8>>, FileError> {
    let mut path = None;
    for record in PaxExtensions::new(records) {
        let record = record.map_err(FileError::Archive)?;
        match record.key_bytes() {
            b"path" => path = Some(record.value_bytes().to_vec()),
            b"size" => return Err(refused(b"pax", "its size is given twice")),
            key if key.starts_with(b"GNU.sparse") => {
                return Err(refused(b"pax", "it describes a sparse file"));
            }
            _ => {}
        }
    }
    Ok(path)
}

fn refused(name: &[u8], reason: &'static str) -> FileError {
    FileError::Entry { name: readable(name), reason }
}

fn readable(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(SHOWN_CHARS_MAX).collect()
}
