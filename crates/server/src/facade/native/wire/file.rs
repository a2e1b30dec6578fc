//! Files, archives and links.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use silica_engine::{FileKind, FileStat, Listed};

use super::Moment;
use crate::http::files::timestamp;
use crate::http::long_answer::LongText;

/// A file or directory
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("examples" = [{
    "path": "/workspace/data.csv", "name": "data.csv", "kind": "file", "size": 8,
    "mode": "644", "modified_at": "2026-01-01T00:00:00.000000Z", "owner": "user",
    "target": null,
}]))]
pub(crate) struct Entry {
    /// Its path
    path: String,
    /// The last segment of the path
    name: String,
    /// What it is
    #[schemars(extend("enum" = ["file", "directory", "symlink", "other"]))]
    kind: &'static str,
    /// Its size in bytes
    size: u64,
    /// Its permissions, octal
    mode: String,
    /// When its content last changed
    modified_at: Moment,
    /// Its owner
    #[schemars(extend("enum" = ["user", "nobody"]))]
    owner: &'static str,
    /// The target of a symbolic link
    target: Option<String>,
    /// In a list: whether its path can be used in requests
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    usable: Option<bool>,
}

impl Entry {
    /// Renders one file or directory.
    pub(crate) fn new(path: &str, stat: &FileStat) -> Self {
        let kind = match stat.kind {
            FileKind::File => "file",
            FileKind::Directory => "directory",
            FileKind::Symlink => "symlink",
            FileKind::Other => "other",
        };
        Self {
            path: path.to_owned(),
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            kind,
            size: stat.size,
            mode: format!("{:o}", stat.mode),
            modified_at: Moment(timestamp(stat.modified)),
            owner: stat.owner.name(),
            target: stat.target.clone(),
            usable: None,
        }
    }

    /// Says whether the path of an entry in a list can be used in requests.
    pub(crate) fn usable(mut self, usable: bool) -> Self {
        self.usable = Some(usable);
        self
    }
}

/// A directory
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listing {
    /// What is in it
    #[schemars(with = "Vec<Entry>")]
    entries: Entries,
    /// Whether there is more than is listed
    truncated: bool,
}

impl Listing {
    /// Renders a list.
    pub(crate) fn new(entries: Vec<Listed>, truncated: bool) -> Self {
        Self { entries: Entries(entries), truncated }
    }

    /// Returns about how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.0.iter().map(|entry| (size_of::<Listed>() + entry.path.len()) as u64).sum()
    }
}

impl LongText for Listing {
    fn bytes_least(&self) -> u64 {
        self.bytes()
    }
}

/// Entries that are rendered while they are written, one after the other.
#[derive(Debug)]
struct Entries(Vec<Listed>);

impl Serialize for Entries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.0.iter();
        serializer.collect_seq(entries.map(|it| Entry::new(&it.path, &it.stat).usable(it.usable)))
    }
}

/// An archive that was unpacked
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Unpacked {
    /// Files that were written
    pub(crate) files: usize,
    /// Bytes that were written
    pub(crate) bytes: u64,
    /// Links, devices and other entries that were left out
    pub(crate) left_out: usize,
    /// The first names of those
    pub(crate) left_out_names: Vec<String>,
}

/// A link to a file or a port
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Link")]
pub(crate) struct LinkCreated {
    /// An address that works without a key
    pub(crate) url: String,
    /// When it expires
    pub(crate) expires_at: Moment,
}
