//! Looking at files and directories: `Stat` and `ListDir` of `filesystem.Filesystem`.
//!
//! The host looks at what is in the writable directories. Everything else, and what a link leads to, a
//! process in the sandbox looks at.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use silica_engine::{
    FileError, FileKind, FileStat, GuestPath, InsideEntry, InsidePath, LinkEnd, Listed, Metadata,
    ReadPath,
};
use silica_sessions::{ReadOnlyFiles, Session};

use super::access::{E2bJson, EnvdSession};
use super::error::{E2bError, E2bResult};
use super::paths;
use crate::app::App;
use crate::http::files::{read, timestamp};
use crate::http::json::Answer;
use crate::http::long_answer::{Holding, LongText, hold, long_answer};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PathMessage {
    pub(super) path: String,
    depth: u32,
}

/// Renders a file or directory as E2B does.
fn entry(path: &str, stat: &FileStat, metadata: &Metadata) -> Value {
    let (kind, letter) = match stat.kind {
        FileKind::File => ("FILE_TYPE_FILE", '-'),
        FileKind::Directory => ("FILE_TYPE_DIRECTORY", 'd'),
        FileKind::Symlink => ("FILE_TYPE_SYMLINK", 'L'),
        FileKind::Other => ("FILE_TYPE_UNSPECIFIED", '?'),
    };
    let mut value = json!({
        "name": path.rsplit('/').next().unwrap_or_default(),
        "type": kind,
        "path": path,
        "size": stat.size.to_string(),
        "mode": stat.mode & 0o777,
        "permissions": format!("{letter}{}", permissions(stat.mode)),
        "owner": stat.owner.name(),
        "group": stat.owner.name(),
        "modifiedTime": timestamp(stat.modified).to_string(),
        "metadata": metadata,
    });
    if let Some(target) = &stat.target {
        value["symlinkTarget"] = target.as_str().into();
        value["isSymlink"] = true.into();
    }
    value
}

/// Renders an entry that may be a link: E2B gives it the type and mode of what it leads to. A link that
/// leads nowhere stays one.
fn entry_of(inside: &InsideEntry, metadata: &Metadata) -> Value {
    let mut stat = inside.listed.stat.clone();
    let mut permissions_of_link = None;
    if let Some(LinkEnd { path, found }) = &inside.link_end {
        stat.target = Some(path.clone());
        if let Some((kind, mode)) = *found {
            permissions_of_link = Some(format!("L{}", permissions(stat.mode)));
            (stat.kind, stat.mode) = (kind, mode);
        }
    }
    let mut value = entry(&inside.listed.path, &stat, metadata);
    if let Some(permissions) = permissions_of_link {
        value["permissions"] = permissions.into();
    }
    value
}

fn permissions(mode: u32) -> String {
    let letters = ['r', 'w', 'x'].into_iter().cycle().take(9).enumerate();
    letters.map(|(at, letter)| if mode & (0o400 >> at) != 0 { letter } else { '-' }).collect()
}

/// Describes the file or directory at a path, without following a link.
pub(super) fn look(files: &ReadOnlyFiles, path: &GuestPath) -> Result<Value, FileError> {
    Ok(entry(&path.to_string(), &files.stat(path)?, &files.metadata(path)?))
}

/// Returns a result unless a link must be followed, which only a process in the sandbox does.
fn unless_linked<T>(looked: Result<T, FileError>) -> Result<Option<T>, FileError> {
    match looked {
        Err(FileError::Linked(_)) => Ok(None),
        looked => looked.map(Some),
    }
}

/// `Stat`
pub(super) async fn stat(
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<PathMessage>,
) -> E2bResult {
    let inside = match paths::readable(&message.path)? {
        ReadPath::Inside(path) => path,
        ReadPath::Writable(path) => {
            let inside = InsidePath::from(&path);
            let looked = read(&session, move |files| {
                let is_link = |stat: FileStat| stat.kind == FileKind::Symlink;
                match unless_linked(files.stat(&path).map(is_link))? {
                    Some(false) => unless_linked(look(files, &path)),
                    Some(true) | None => Ok(None),
                }
            });
            if let Some(entry) = looked.await? {
                return Ok(Answer(json!({"entry": entry})).into_response());
            }
            inside
        }
    };
    let entry = session.inside_stat(&inside).await?;
    Ok(Answer(json!({"entry": entry_of(&entry, &Metadata::new())})).into_response())
}

/// `ListDir`
pub(super) async fn list(
    State(app): State<App>,
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<PathMessage>,
) -> E2bResult {
    let depth = message.depth.max(1) as usize;
    let path = paths::readable(&message.path)?;
    let shown = path.to_string();
    let listed = match path {
        ReadPath::Inside(path) => list_inside(&session, &path, depth).await?,
        ReadPath::Writable(path) => {
            let inside = InsidePath::from(&path);
            let listed = read(&session, move |files| list_writable(files, &path, depth)).await?;
            match listed {
                Some(listed) => listed,
                None => list_inside(&session, &inside, depth).await?,
            }
        }
    };
    if listed.truncated {
        return Err(FileError::TooMuch(shown).into());
    }
    let held = hold(&app, session.tenant(), listed.bytes_least())?;
    Ok(long_answer(&app, session.tenant(), Holding { value: listed, _held: held }).await?)
}

#[derive(Debug, Serialize)]
struct ListedEntries {
    #[serde(serialize_with = "one_after_the_other")]
    entries: Vec<ListedEntry>,
    #[serde(skip)]
    truncated: bool,
}

/// An entry that is rendered when it is written.
#[derive(Debug)]
struct ListedEntry {
    found: InsideEntry,
    metadata: Metadata,
}

impl ListedEntry {
    fn of_writable(listed: Listed, files: &ReadOnlyFiles) -> Self {
        let metadata = metadata(files, &listed.path);
        Self { found: InsideEntry { listed, link_end: None }, metadata }
    }

    fn bytes(&self) -> usize {
        let metadata = self.metadata.iter().map(|(key, value)| key.len() + value.len());
        size_of::<Self>() + self.found.listed.path.len() + metadata.sum::<usize>()
    }
}

fn one_after_the_other<S: Serializer>(
    entries: &[ListedEntry],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(entries.iter().map(|entry| entry_of(&entry.found, &entry.metadata)))
}

impl LongText for ListedEntries {
    fn bytes_least(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes() as u64).sum()
    }
}

/// Lists a directory; `None` if there is a link on the way to it or in it.
fn list_writable(
    files: &ReadOnlyFiles,
    path: &GuestPath,
    depth: usize,
) -> Result<Option<ListedEntries>, FileError> {
    let Some(listing) = unless_linked(files.list(path, depth))? else { return Ok(None) };
    if listing.entries.iter().any(|listed| listed.stat.kind == FileKind::Symlink) {
        return Ok(None);
    }
    let entries = listing.entries.into_iter();
    let entries = entries.map(|listed| ListedEntry::of_writable(listed, files)).collect();
    Ok(Some(ListedEntries { entries, truncated: listing.truncated }))
}

/// Returns the metadata of a file in the writable directories, if it has any.
fn metadata(files: &ReadOnlyFiles, path: &str) -> Metadata {
    GuestPath::parse(path).and_then(|path| files.metadata(&path)).unwrap_or_default()
}

async fn list_inside(
    session: &Arc<Session>,
    path: &InsidePath,
    depth: usize,
) -> Result<ListedEntries, E2bError> {
    let listing = session.inside_list(path, depth).await?;
    let listed = read(session, move |files| {
        let with_metadata = |found: InsideEntry| {
            let metadata = metadata(files, &found.listed.path);
            ListedEntry { found, metadata }
        };
        let entries = listing.entries.into_iter().map(with_metadata).collect();
        Ok(ListedEntries { entries, truncated: listing.truncated })
    });
    Ok(listed.await?)
}
