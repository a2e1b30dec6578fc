//! Looking at files and directories: `Stat` and `ListDir` of `filesystem.Filesystem`.
//!
//! The host looks at what is in the writable directories. Everything else, and what a link leads to, a
//! process in the sandbox looks at.

use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};
use silica_engine::{
    FileError, FileKind, FileStat, GuestPath, InsideEntry, InsidePath, LinkEnd, Metadata, ReadPath,
};
use silica_sessions::{ReadOnlyFiles, Session};

use super::access::{E2bJson, EnvdSession};
use super::error::{E2bError, E2bResult};
use super::paths;
use crate::http::files::{read, timestamp};
use crate::http::json::Answer;

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
    Ok(Answer(json!({"entries": listed.entries})).into_response())
}

struct ListedEntries {
    entries: Vec<Value>,
    truncated: bool,
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
    let entries = listing.entries.iter();
    let entries = entries.map(|it| entry(&it.path, &it.stat, &metadata(files, &it.path))).collect();
    Ok(Some(ListedEntries { entries, truncated: listing.truncated }))
}

/// Returns the metadata of a file in the writable directories, if it has any.
fn metadata(files: &ReadOnlyFiles, path: &str) -> Metadata {
    GuestPath::parse(path).and_then(|path| files.metadata(&path)).unwrap_or_default()
}

async fn list_inside(
    session: &Session,
    path: &InsidePath,
    depth: usize,
) -> Result<ListedEntries, E2bError> {
    let listing = session.inside_list(path, depth).await?;
    let listed = read(session, move |files| {
        let entries = listing.entries.iter();
        let entries = entries.map(|it| entry_of(it, &metadata(files, &it.listed.path))).collect();
        Ok(ListedEntries { entries, truncated: listing.truncated })
    });
    Ok(listed.await?)
}
