//! The list of what an installation put where. A line is a digest and a path, or `directory` and
//! the path of one that was made.

#[cfg(test)]
mod tests;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use silica_store::Digest;

/// How much of a receipt is read; one has about fifty lines.
const BYTES_MAX: u64 = 1 << 20;

const DIRECTORY: &str = "directory";

/// One path of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    /// The digest of a file's content in hex; a directory has none.
    pub(crate) digest: Option<String>,
}

impl Entry {
    pub(super) fn file(path: PathBuf, digest: Digest) -> Self {
        Self { path, digest: Some(digest.to_string()) }
    }

    pub(super) fn directory(path: PathBuf) -> Self {
        Self { path, digest: None }
    }
}

/// What was installed, in the order in which it was.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) entries: Vec<Entry>,
}

impl Receipt {
    /// Reads a receipt; nothing if there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        let failed = || format!("cannot read {}", path.display());
        let length = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found.with_context(failed)?.len(),
        };
        if length > BYTES_MAX {
            bail!("{} is not a list of installed files: it is too long", path.display());
        }
        let text = fs::read_to_string(path).with_context(failed)?;
        let entries = text.lines().map(parse).collect::<Option<Vec<_>>>();
        let entries = entries.with_context(|| {
            format!("{} is damaged: it should be a list of installed files", path.display())
        })?;
        Ok(Some(Self { entries }))
    }

    /// Adds a path, or replaces what is known about it.
    pub(super) fn add(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|known| known.path == entry.path) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }

    /// Writes the receipt and notes the directories that are made for it.
    pub(super) fn write(&mut self, path: &Path) -> Result<()> {
        let failed = || format!("cannot write {}", path.display());
        for directory in super::missing_directories(path) {
            self.add(Entry::directory(directory));
        }
        let directory = path.parent().with_context(failed)?;
        super::make_directory(directory).with_context(failed)?;
        let lines = self.entries.iter().map(|entry| {
            let kind = entry.digest.as_deref().unwrap_or(DIRECTORY);
            format!("{kind} {}\n", entry.path.display())
        });
        let temporary = path.with_extension("new");
        fs::write(&temporary, lines.collect::<String>()).with_context(failed)?;
        fs::rename(&temporary, path).with_context(failed)
    }
}

/// Reads one line. Paths are absolute and name no parent, so a receipt cannot lead elsewhere.
fn parse(line: &str) -> Option<Entry> {
    let (kind, path) = line.split_once(' ')?;
    let path = PathBuf::from(path);
    let is_plain = path.is_absolute() && !line.contains("/../") && !line.ends_with("/..");
    let is_digest = kind.len() == 64 && kind.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digest = is_digest.then(|| kind.to_owned());
    (is_plain && (is_digest || kind == DIRECTORY)).then_some(Entry { path, digest })
}
