//! Files as Jupyter's server shows them. At the top there is a directory for each kernel, named by its
//! id; in it is what its sandbox has in /workspace.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use silica_engine::{FileKind, FileStat, Files, GuestPath, Overwrite, Parents, Removal};
use silica_sessions::Session;
use silica_store::Timestamp;

use super::auth::Visit;
use super::kernels::{body, short_body};
use crate::http::files::{change, read, timestamp};
use crate::http::json::{self, Answer};
use crate::http::problem::{Code, Problem};

/// The largest file that is shown as one JSON value.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// How often a name is tried for a file without one.
const NAME_ATTEMPTS: u32 = 100;

/// What a path names.
enum Place {
    /// The directory of kernels.
    Top,
    /// Something in the sandbox of a kernel.
    In { session: Arc<Session>, shown: String, path: GuestPath },
}

fn place(visit: &Visit, path: &str) -> Result<Place, Problem> {
    let path = path.trim_matches('/');
    if path.is_empty() {
        return Ok(Place::Top);
    }
    let (kernel, rest) = path.split_once('/').unwrap_or((path, ""));
    let kernel = visit.state.kernels.find(&visit.caller.tenant, kernel)?;
    let guest = GuestPath::parse(&format!("/workspace/{rest}"))?;
    Ok(Place::In { session: Arc::clone(&kernel.session), shown: path.to_owned(), path: guest })
}

fn inside(visit: &Visit, path: &str) -> Result<(Arc<Session>, String, GuestPath), Problem> {
    match place(visit, path)? {
        Place::In { session, shown, path } => Ok((session, shown, path)),
        Place::Top => Err(Problem::new(
            Code::Refused,
            "files are in the directory of a kernel, named by its id",
        )),
    }
}

/// Returns what Jupyter says about a file, without its content.
fn model(path: &str, stat: &FileStat) -> Value {
    let name = path.rsplit('/').next().unwrap_or_default();
    let kind = match stat.kind {
        FileKind::Directory => "directory",
        FileKind::File if name.rsplit_once('.').is_some_and(|(_, ending)| ending == "ipynb") => {
            "notebook"
        }
        FileKind::File | FileKind::Symlink | FileKind::Other => "file",
    };
    let modified = timestamp(stat.modified);
    json!({
        "name": name, "path": path, "type": kind, "created": modified, "last_modified": modified,
        "size": stat.size, "writable": true, "content": null, "format": null, "mimetype": null,
    })
}

fn top(visit: &Visit) -> Value {
    let now = Timestamp::now();
    let entry = |name: &str, content: Value| {
        json!({
            "name": name, "path": name, "type": "directory", "created": now, "last_modified": now,
            "size": null, "writable": false, "format": null, "mimetype": null, "content": content,
        })
    };
    let kernels = visit.state.kernels.of(&visit.caller.tenant);
    let content = kernels.iter().map(|kernel| entry(&kernel.id, Value::Null)).collect();
    let mut top = entry("", content);
    top["format"] = "json".into();
    top
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wanted {
    content: Option<String>,
    format: Option<String>,
    r#type: Option<String>,
}

/// `GET /api/contents/{path}`
pub(super) async fn get(visit: Visit, request: Request) -> Result<Response, Problem> {
    let query = request.uri().query().unwrap_or_default();
    let wanted: Wanted = serde_urlencoded::from_str(query).unwrap_or_default();
    let Place::In { session, shown, path } = place(&visit, visit.param("path"))? else {
        return Ok(Answer(top(&visit)).into_response());
    };
    let with_content = wanted.content.as_deref() != Some("0");
    let found = read(&session, move |files| {
        let stat = files.stat(&path)?;
        let mut model = model(&shown, &stat);
        if !with_content {
            return Ok(model);
        }
        if stat.kind == FileKind::Directory {
            let listing = files.list(&path, 1)?;
            let child = |entry: &silica_engine::Listed| {
                self::model(&format!("{shown}/{}", entry.name()), &entry.stat)
            };
            model["content"] = listing.entries.iter().map(child).collect();
            model["format"] = "json".into();
            return Ok(model);
        }
        let bytes = files.read_whole(&path, FILE_BYTES_MAX)?;
        fill(&mut model, bytes, &wanted);
        Ok(model)
    });
    Ok(Answer(found.await?).into_response())
}

/// Adds the content of a file in the form that is wanted.
fn fill(model: &mut Value, bytes: Vec<u8>, wanted: &Wanted) {
    let as_notebook = model["type"] == "notebook" && wanted.r#type.as_deref() != Some("file");
    // Within the bound that requests have on the number of values.
    if as_notebook && let Ok(notebook) = json::parse::<Value>(&bytes) {
        model["content"] = notebook;
        model["format"] = "json".into();
        return;
    }
    model["type"] = "file".into();
    match String::from_utf8(bytes) {
        Ok(text) if wanted.format.as_deref() != Some("base64") => {
            model["content"] = text.into();
            model["format"] = "text".into();
            model["mimetype"] = "text/plain".into();
        }
        bytes => {
            let bytes =
                bytes.map_or_else(std::string::FromUtf8Error::into_bytes, String::into_bytes);
            model["content"] = STANDARD.encode(bytes).into();
            model["format"] = "base64".into();
            model["mimetype"] = "application/octet-stream".into();
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FileBody {
    path: Option<String>,
    r#type: Option<String>,
    ext: Option<String>,
    copy_from: Option<String>,
    format: Option<String>,
    content: Option<Value>,
}

impl FileBody {
    fn bytes(&self) -> Result<Vec<u8>, Problem> {
        match (&self.content, self.format.as_deref()) {
            (None | Some(Value::Null), _) => Ok(Vec::new()),
            (Some(Value::String(text)), Some("base64")) => STANDARD
                .decode(text.split_whitespace().collect::<String>())
                .map_err(|error| Problem::bad(format!("content: {error}"))),
            (Some(Value::String(text)), _) => Ok(text.clone().into_bytes()),
            (Some(json), _) => Ok(json.to_string().into_bytes()),
        }
    }

    fn is_directory(&self) -> bool {
        self.r#type.as_deref() == Some("directory")
    }
}

fn written(
    files: &Arc<Files>,
    path: &GuestPath,
    shown: &str,
) -> Result<Value, silica_engine::FileError> {
    Ok(model(shown, &files.stat(path)?))
}

/// `PUT /api/contents/{path}`
pub(super) async fn save(visit: Visit, request: Request) -> Result<Response, Problem> {
    let (session, shown, path) = inside(&visit, visit.param("path"))?;
    let existed = {
        let path = path.clone();
        read(&session, move |files| files.exists(&path)).await?
    };
    let file: FileBody = body(request, visit.app.options.body_bytes_max).await?;
    let model = if file.is_directory() {
        change(&session, move |files| {
            files.make_directory(&path, Parents::Create)?;
            written(files, &path, &shown)
        })
        .await?
    } else {
        session.put_files(vec![(path.clone(), file.bytes()?)]).await?;
        change(&session, move |files| written(files, &path, &shown)).await?
    };
    let status = if existed { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Answer(model)).into_response())
}

/// `POST /api/contents/{path}`: a new file in a directory, under a name that is free.
pub(super) async fn create(visit: Visit, request: Request) -> Result<Response, Problem> {
    let (session, shown, directory) = inside(&visit, visit.param("path"))?;
    let asked: FileBody = short_body(request).await?;
    let source = match &asked.copy_from {
        Some(from) => Some(inside(&visit, from)?),
        None => None,
    };
    let content = match &source {
        Some((other, _, path)) => {
            let path = path.clone();
            read(other, move |files| files.read_whole(&path, FILE_BYTES_MAX)).await?
        }
        None if asked.r#type.as_deref() == Some("notebook") => EMPTY_NOTEBOOK.as_bytes().to_vec(),
        None => Vec::new(),
    };
    let (stem, ending) = match (source.as_ref(), asked.r#type.as_deref()) {
        (Some((_, from, _)), _) => {
            let name = from.rsplit('/').next().unwrap_or("copy");
            let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
            (
                format!("{stem}-Copy"),
                if ending.is_empty() { String::new() } else { format!(".{ending}") },
            )
        }
        (None, Some("directory")) => ("Untitled Folder".to_owned(), String::new()),
        (None, Some("notebook")) => ("Untitled".to_owned(), ".ipynb".to_owned()),
        (None, _) => {
            ("untitled".to_owned(), asked.ext.clone().unwrap_or_else(|| ".txt".to_owned()))
        }
    };
    for attempt in 0..NAME_ATTEMPTS {
        let number = if attempt == 0 { String::new() } else { attempt.to_string() };
        let name = format!("{stem}{number}{ending}");
        let path = directory.join(&name)?;
        let taken = path.clone();
        if read(&session, move |files| files.exists(&taken)).await? {
            continue;
        }
        let shown = format!("{shown}/{name}");
        if asked.is_directory() {
            let made = path.clone();
            change(&session, move |files| files.make_directory(&made, Parents::Create)).await?;
        } else {
            session.put_files(vec![(path.clone(), content)]).await?;
        }
        let model = change(&session, move |files| written(files, &path, &shown)).await?;
        return Ok((StatusCode::CREATED, Answer(model)).into_response());
    }
    Err(Problem::new(Code::Conflict, "no name is free"))
}

/// A notebook without cells.
const EMPTY_NOTEBOOK: &str = r#"{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}"#;

/// `PATCH /api/contents/{path}`
pub(super) async fn rename(visit: Visit, request: Request) -> Result<Response, Problem> {
    let (session, _, from) = inside(&visit, visit.param("path"))?;
    let FileBody { path, .. } = short_body(request).await?;
    let path = path.ok_or_else(|| Problem::bad("path is required"))?;
    let (other, shown, to) = inside(&visit, &path)?;
    if !Arc::ptr_eq(&session, &other) {
        return Err(Problem::new(Code::Refused, "a file stays in the sandbox of its kernel"));
    }
    let model = change(&session, move |files| {
        files.rename(&from, &to, Overwrite::Refuse)?;
        written(files, &to, &shown)
    });
    Ok(Answer(model.await?).into_response())
}

/// `DELETE /api/contents/{path}`
pub(super) async fn remove(visit: Visit) -> Result<Response, Problem> {
    let (session, _, path) = inside(&visit, visit.param("path"))?;
    change(&session, move |files| files.remove(&path, Removal::Tree)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
