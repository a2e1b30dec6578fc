//! Files of a sandbox, streamed at constant memory.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use silica_engine::{
    FileError, FileKind, GuestPath, Made, Metadata, Overwrite, Parents, ReadPath, Removal,
};
use silica_sessions::Session;
use silica_store::{Tenant, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::wire::Moment;
use super::wire::file::{Entry, LinkCreated, Listing, Unpacked};
use super::{seconds, session};
use crate::app::App;
use crate::http::auth::{Caller, admit};
use crate::http::download::{Links, send};
use crate::http::files::{change, read};
use crate::http::json::{Answer, Json};
use crate::http::long_answer::{Holding, hold, long_answer};
use crate::http::problem::{Code, Problem};
use crate::http::returnable::refuse;
use crate::http::transfer::{PIECES_WAITING, Transfer, own_thread, write_pieces};
use crate::http::upload::{Encoding, Source, Upload, feed, store};
use crate::links::Link;

/// The longest life of a link.
const LINK_SECONDS_MAX: f64 = 7.0 * 24.0 * 3600.0;

type Queried<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathQuery {
    path: String,
    depth: Option<usize>,
    mode: Option<String>,
}

/// Parses a query for something that is only read.
fn read_query(query: Queried<PathQuery>) -> Result<(ReadPath, PathQuery), Problem> {
    let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
    Ok((ReadPath::parse(&query.path)?, query))
}

fn queried(query: Queried<PathQuery>) -> Result<(GuestPath, PathQuery), Problem> {
    let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
    Ok((GuestPath::parse(&query.path)?, query))
}

/// `GET …/files`
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    query: Queried<PathQuery>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let (path, query) = read_query(query)?;
    let depth = query.depth.unwrap_or(1);
    let (listed, truncated) = match path {
        ReadPath::Writable(path) => {
            let listing = read(&session, move |files| files.list(&path, depth)).await?;
            (listing.entries, listing.truncated)
        }
        ReadPath::Inside(path) => {
            let listing = session.inside_list(&path, depth).await?;
            let entries = listing.entries.into_iter().map(|entry| entry.listed).collect();
            (entries, listing.truncated)
        }
    };
    let value = Listing::new(listed, truncated);
    let held = hold(&app, &caller.tenant, value.bytes())?;
    long_answer(&app, &caller.tenant, Holding { value, _held: held }).await
}

/// `GET …/files/stat`
pub(crate) async fn stat(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    query: Queried<PathQuery>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let (path, _) = read_query(query)?;
    let shown = path.to_string();
    let stat = match path {
        ReadPath::Writable(path) => read(&session, move |files| files.stat(&path)).await?,
        ReadPath::Inside(path) => session.inside_stat(&path).await?.listed.stat,
    };
    Ok(Answer(Entry::new(&shown, &stat)).into_response())
}

/// `DELETE …/files`
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    query: Queried<PathQuery>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let (path, _) = queried(query)?;
    change(&session, move |files| files.remove(&path, Removal::Tree)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A directory to be made
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MakeDirectory", extend("examples" = [{"path": "reports/2026"}]))]
pub(crate) struct DirectoryBody {
    /// Its path; parents are made too
    path: String,
}

/// `POST …/files/directory`
pub(crate) async fn make_directory(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<DirectoryBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let path = GuestPath::parse(&body.path)?;
    let shown = path.to_string();
    let (made, stat) = change(&session, move |files| {
        let made = files.make_directory(&path, Parents::Create)?;
        Ok((made, files.stat(&path)?))
    })
    .await?;
    let status = match made {
        Made::Created => StatusCode::CREATED,
        Made::Existed => StatusCode::OK,
    };
    Ok((status, Answer(Entry::new(&shown, &stat))).into_response())
}

/// A move of a file or directory
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "MoveFile",
    extend("examples" = [{"from": "a.csv", "to": "b.csv", "overwrite": false}])
)]
pub(crate) struct MoveBody {
    /// Its path
    from: String,
    /// Its new path
    to: String,
    /// Replace a file that exists there
    #[serde(default)]
    overwrite: bool,
}

/// `POST …/files/move`
pub(crate) async fn rename(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<MoveBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let from = GuestPath::parse(&body.from)?;
    let to = GuestPath::parse(&body.to)?;
    let overwrite = if body.overwrite { Overwrite::Replace } else { Overwrite::Refuse };
    let shown = to.to_string();
    let stat = change(&session, move |files| {
        files.rename(&from, &to, overwrite)?;
        files.stat(&to)
    })
    .await?;
    Ok(Answer(Entry::new(&shown, &stat)).into_response())
}

/// `GET …/files/content`
pub(crate) async fn download(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    query: Queried<PathQuery>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let (path, _) = read_query(query)?;
    send(&app, &session, path, &headers, Links::Refuse).await
}

/// `PUT …/files/content`
pub(crate) async fn upload(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    query: Queried<PathQuery>,
    body: Body,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let (path, query) = queried(query)?;
    let mode = match query.mode {
        None => silica_engine::FILE_MODE_DEFAULT,
        Some(mode) => u32::from_str_radix(&mode, 8)
            .ok()
            .filter(|mode| *mode <= 0o777)
            .ok_or_else(|| Problem::bad("mode must be octal, at most 777"))?,
    };
    receive(&app, &session, path, mode, body).await
}

async fn receive(
    app: &App,
    session: &Arc<Session>,
    path: GuestPath,
    mode: u32,
    mut body: Body,
) -> Result<Response, Problem> {
    let shown = path.to_string();
    let upload = Upload { path, mode, metadata: Metadata::new(), encoding: Encoding::Plain };
    let (existed, stat) = match store(app, session, upload, &mut body).await {
        Ok(stored) => stored,
        Err(problem) => return Ok(refuse(problem, body).await),
    };
    let status = if existed { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Answer(Entry::new(&shown, &stat))).into_response())
}

/// `GET …/files/archive`
pub(crate) async fn archive(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    query: Queried<PathQuery>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let (path, _) = queried(query)?;
    let files = session.read_files()?;
    // Refused before the answer begins, not in the middle of it.
    let checked = path.clone();
    let stat = read(&session, move |files| files.stat(&checked)).await?;
    if stat.kind != FileKind::Directory {
        return Err(FileError::NotDirectory(path.to_string()).into());
    }
    let transfer = Transfer::of_session(&app, &session).await?;
    let mut pieces = write_pieces(transfer, move |pipe| {
        files.archive(&path, pipe).map(drop).map_err(io::Error::other)
    })?;
    // What is wrong with the whole of it is found before the first piece.
    let first =
        pieces.next().await.transpose().map_err(|error| match error.downcast::<FileError>() {
            Ok(error) => Problem::from(error),
            Err(_) => Problem::new(Code::Internal, "the archive could not be made"),
        })?;
    let body = pieces.into_body_after(first);
    Ok(([(header::CONTENT_TYPE, "application/x-tar")], body).into_response())
}

/// `PUT …/files/archive`
pub(crate) async fn extract(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    query: Queried<PathQuery>,
    body: Body,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let (path, _) = queried(query)?;
    let transfer = Transfer::of_session(&app, &session).await?;
    let (sender, receiver) = mpsc::channel::<Bytes>(PIECES_WAITING);
    let bytes_max = session.disk_bytes();
    let (unpacked_sender, unpacking) = oneshot::channel();
    let change = session.begin_file_change()?;
    own_thread(move || {
        // The thread may outlive a client that leaves.
        let _transfer = transfer;
        let mut source = Source::new(receiver);
        let unpacked = change.apply(|files| files.extract(&path, &mut source, bytes_max));
        // Fails only if the client has left.
        let _ = unpacked_sender.send(unpacked);
    })?;
    let mut body = body;
    let fed = feed(&app, &session, &mut body, &sender).await;
    drop(sender);
    let lost = |_| Problem::new(Code::Internal, "the archive was not unpacked");
    let unpacked = unpacking.await.map_err(lost)?;
    let done = match (fed, unpacked) {
        (Ok(()), Ok(done)) => done,
        (Err(problem), _) => return Ok(refuse(problem, body).await),
        (Ok(()), Err(error)) => return Ok(refuse(error.into(), body).await),
    };
    let unpacked = Unpacked {
        files: done.files,
        bytes: done.bytes,
        left_out: done.left_out,
        left_out_names: done.left_out_names,
    };
    Ok(Answer(unpacked).into_response())
}

/// A link to be made
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "MakeLink",
    extend("examples" = [{"path": "report.md", "method": "GET", "expires_seconds": 300}])
)]
pub(crate) struct LinkBody {
    /// The file that it leads to
    path: String,
    /// Whether it is for reading or for writing
    #[serde(default)]
    #[schemars(extend("default" = "GET"))]
    method: LinkMethod,
    /// How long it works: 300 if left out, at most a week
    expires_seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
enum LinkMethod {
    #[default]
    Get,
    Put,
}

/// `POST …/files/link`
pub(crate) async fn link(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<LinkBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let path = match body.method {
        LinkMethod::Get => ReadPath::parse(&body.path)?,
        LinkMethod::Put => ReadPath::Writable(GuestPath::parse(&body.path)?),
    };
    let life = body.expires_seconds.unwrap_or(300.0);
    if !(life > 0.0 && life <= LINK_SECONDS_MAX) {
        let words = format!("expires_seconds must be above 0 and at most {LINK_SECONDS_MAX}");
        return Err(Problem::bad(words));
    }
    let life: Duration = seconds(life)?;
    let expires_at = Timestamp::now().after(life);
    let link = Link {
        sandbox: session.id().to_string(),
        tenant: caller.tenant.to_string(),
        path: path.to_string(),
        writes: body.method == LinkMethod::Put,
        expires: expires_at.as_micros(),
    };
    let url = format!("{}/v1/links/{}", app.options.public_url, app.link_key.seal(&link));
    Ok(Answer(LinkCreated { url, expires_at: Moment(expires_at) }).into_response())
}

/// The sandbox and path of a link, if it is good for this.
async fn follow(
    app: &App,
    extensions: &Extensions,
    token: &str,
    writes: bool,
) -> Result<(Arc<Session>, String), Problem> {
    let invalid = || Problem::new(Code::LinkInvalid, "this link is not valid, or not any more");
    let link = app.link_key.open(token, Timestamp::now()).ok_or_else(invalid)?;
    if link.writes != writes {
        return Err(invalid());
    }
    let tenant = Tenant::parse(&link.tenant).map_err(|_| invalid())?;
    if !app.sessions.keys().is_active(&tenant)? {
        return Err(invalid());
    }
    admit(app, extensions, &tenant).await?;
    let caller = Caller { tenant, admin: false, approve: false };
    let session = session(app, &caller, &link.sandbox).await?;
    Ok((session, link.path))
}

/// `GET /v1/links/{token}`
pub(crate) async fn get_link(
    State(app): State<App>,
    Path(token): Path<String>,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let (session, path) = follow(&app, &extensions, &token, false).await?;
    let path = ReadPath::parse(&path)?;
    let name = path.name().replace(['"', '\\'], "_");
    let mut response = send(&app, &session, path, &headers, Links::Refuse).await?;
    let disposition = format!("attachment; filename=\"{name}\"");
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

/// `PUT /v1/links/{token}`
pub(crate) async fn put_link(
    State(app): State<App>,
    Path(token): Path<String>,
    extensions: Extensions,
    body: Body,
) -> Result<Response, Problem> {
    let (session, path) = follow(&app, &extensions, &token, true).await?;
    let path = GuestPath::parse(&path)?;
    receive(&app, &session, path, silica_engine::FILE_MODE_DEFAULT, body).await
}
