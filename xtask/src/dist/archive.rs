//! Archives of a directory that are the same bytes whenever the files are: sorted, with one time
//! and, unless the owner matters, one owner.

#[cfg(test)]
mod tests;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{EntryType, Header};

/// The time of every file: 2026-01-01 UTC.
pub(super) const TIME_SECONDS: u64 = 1_767_225_600;

/// Whose files are in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Root,
    AsFound,
}

/// Returns the packed archive of what is below `directory`, each name after `prefix`.
pub(super) fn tar_gz(directory: &Path, prefix: &str) -> Result<Vec<u8>> {
    gz(&tar(directory, prefix, Owner::Root)?)
}

/// Returns the archive of a file system, with the owners of its files.
pub(super) fn tar_of_root(directory: &Path) -> Result<Vec<u8>> {
    tar(directory, "", Owner::AsFound)
}

/// Packs bytes; the header has neither a time nor a name.
pub(super) fn gz(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Returns an archive of named texts, for a package's own data.
pub(super) fn tar_of_texts(texts: &[(&str, String, u32)]) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, text, mode) in texts {
        let mut header = header(EntryType::Regular, *mode, text.len() as u64);
        builder.append_data(&mut header, name, text.as_bytes())?;
    }
    Ok(builder.into_inner()?)
}

fn tar(directory: &Path, prefix: &str, owner: Owner) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut paths = Vec::new();
    collect(directory, &mut paths)?;
    paths.sort();
    for path in paths {
        let name = format!("{prefix}{}", path.strip_prefix(directory)?.display());
        append(&mut builder, &path, &name, owner)
            .with_context(|| format!("cannot pack {}", path.display()))?;
    }
    Ok(builder.into_inner()?)
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        paths.push(entry.path());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), paths)?;
        }
    }
    Ok(())
}

fn append(
    builder: &mut tar::Builder<Vec<u8>>,
    path: &Path,
    name: &str,
    owner: Owner,
) -> Result<()> {
    let found = fs::symlink_metadata(path)?;
    let kind = found.file_type();
    let entry_type = match () {
        () if kind.is_dir() => EntryType::Directory,
        () if kind.is_symlink() => EntryType::Symlink,
        () if kind.is_char_device() => EntryType::Char,
        () => EntryType::Regular,
    };
    let length = if entry_type == EntryType::Regular { found.len() } else { 0 };
    let mode = match owner {
        Owner::AsFound => found.mode() & 0o7777,
        Owner::Root => packed_mode(entry_type, found.mode()),
    };
    let mut header = header(entry_type, mode, length);
    if owner == Owner::AsFound {
        header.set_uid(u64::from(found.uid()));
        header.set_gid(u64::from(found.gid()));
    }
    match entry_type {
        EntryType::Symlink => builder.append_link(&mut header, name, fs::read_link(path)?)?,
        EntryType::Regular => builder.append_data(&mut header, name, fs::File::open(path)?)?,
        EntryType::Directory => {
            builder.append_data(&mut header, format!("{name}/"), std::io::empty())?;
        }
        // Devices: whatever runs the image makes its own.
        _ => {}
    }
    Ok(())
}

/// Returns the mode of a packed file. The mask of the shell that packs must not decide it.
fn packed_mode(entry_type: EntryType, found: u32) -> u32 {
    let is_program = found & 0o100 != 0;
    if entry_type == EntryType::Directory || is_program { 0o755 } else { 0o644 }
}

fn header(entry_type: EntryType, mode: u32, length: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(entry_type);
    header.set_mode(mode);
    header.set_size(length);
    header.set_mtime(TIME_SECONDS);
    header.set_uid(0);
    header.set_gid(0);
    header
}
