//! Files of a sandbox, streamed at constant memory.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use silica_engine::{
    FileError, FileKind, FileStat, Files, GuestPath, Made, Metadata, Overwrite, Parents, Range,
    Reader, Removal,
};
use silica_sessions::Session;
use silica_store::{Tenant, Timestamp};
use tokio::sync::mpsc;

use super::{seconds, session};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::{Code, Problem};
use crate::http::upload::{Encoding, Source, Upload, feed, store};
use crate::links::Link;

/// Pieces of a file on their way through; memory of one transfer is a few of these.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;

/// Pieces that wait for a slow reader or a slow disk.
pub(crate) const CHUNKS_WAITING: usize = 4;

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

fn queried(query: Queried<PathQuery>) -> Result<(GuestPath, PathQuery), Problem> {
    let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
    Ok((GuestPath::parse(&query.path)?, query))
}

/// Runs file work where it may block.
pub(crate) async fn work<T: Send + 'static>(
    session: &Session,
    act: impl FnOnce(&Files) -> Result<T, FileError> + Send + 'static,
) -> Result<T, Problem> {
    let files = Arc::clone(session.files()?);
    let done = tokio::task::spawn_blocking(move || act(&files)).await;
    let lost = |_| Problem::new(Code::Internal, "the work on files was given up");
    Ok(done.map_err(lost)??)
}

fn entry(path: &str, stat: &FileStat) -> Value {
    let kind = match stat.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Other => "other",
    };
    json!({
        "path": path,
        "name": path.rsplit('/').next().unwrap_or_default(),
        "kind": kind,
        "size": stat.size,
        "mode": format!("{:o}", stat.mode),
        "modified_at": moment(stat.modified).to_string(),
        "owner": stat.owner.name(),
        "target": stat.target,
    })
}

pub(crate) fn moment(time: SystemTime) -> Timestamp {
    let micros = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
    };
    Timestamp::from_micros(micros)
}

/// `GET …/files`
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    query: Queried<PathQuery>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let (path, query) = queried(query)?;
    let depth = query.depth.unwrap_or(1);
    let listing = work(&session, move |files| files.list(&path, depth)).await?;
    let entries: Vec<_> = listing
        .entries
        .iter()
        .map(|listed| {
            let mut value = entry(&listed.path, &listed.stat);
            value["usable"] = listed.usable.into();
            value
        })
        .collect();
    Ok(Answer(json!({"entries": entries, "truncated": listing.truncated})).into_response())
}

/// `GET …/files/stat`
pub(crate) async fn stat(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    query: Queried<PathQuery>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let (path, _) = queried(query)?;
    let shown = path.to_string();
    let stat = work(&session, move |files| files.stat(&path)).await?;
    Ok(Answer(entry(&shown, &stat)).into_response())
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
    work(&session, move |files| files.remove(&path, Removal::Tree)).await?;
    session.touch_files();
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DirectoryBody {
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
    let (made, stat) = work(&session, move |files| {
        let made = files.make_directory(&path, Parents::Create)?;
        Ok((made, files.stat(&path)?))
    })
    .await?;
    let status = match made {
        Made::Created => StatusCode::CREATED,
        Made::Existed => StatusCode::OK,
    };
    Ok((status, Answer(entry(&shown, &stat))).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveBody {
    from: String,
    to: String,
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
    let (from, to) = (GuestPath::parse(&body.from)?, GuestPath::parse(&body.to)?);
    let overwrite = if body.overwrite { Overwrite::Replace } else { Overwrite::Refuse };
    let shown = to.to_string();
    let stat = work(&session, move |files| {
        files.rename(&from, &to, overwrite)?;
        files.stat(&to)
    })
    .await?;
    session.touch_files();
    Ok(Answer(entry(&shown, &stat)).into_response())
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
    let (path, _) = queried(query)?;
    send(&session, path, &headers).await
}

pub(crate) async fn send(
    session: &Session,
    path: GuestPath,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let mut reader = work(session, move |files| files.read(&path)).await?;
    let size = reader.size();
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    // Nothing has no parts: it is sent as it is.
    let range = range.filter(|_| size > 0).and_then(|range| parse_range(range, size));
    let status = match range {
        Some(range) => {
            reader.select(range)?;
            StatusCode::PARTIAL_CONTENT
        }
        None => StatusCode::OK,
    };
    let length = reader.left();
    let mut answer = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/octet-stream")
        .header(header::CONTENT_LENGTH, length)
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::CONTENT_DISPOSITION, "attachment");
    if let Some(range) = range {
        let last = (range.start + length).saturating_sub(1);
        answer =
            answer.header(header::CONTENT_RANGE, format!("bytes {}-{last}/{size}", range.start));
    }
    let answer = answer.body(reading(reader));
    answer.map_err(|_| Problem::new(Code::Internal, "the answer could not be made"))
}

/// One range of bytes, as in `bytes=0-99`, `bytes=100-` and `bytes=-100`. Anything else, several
/// ranges among it, means the whole file, as the standard has it.
fn parse_range(text: &str, size: u64) -> Option<Range> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    match (first.trim(), last.trim()) {
        ("", length) => {
            let length: u64 = length.parse().ok()?;
            Some(Range { start: size.saturating_sub(length), end: None })
        }
        (first, "") => Some(Range { start: first.parse().ok()?, end: None }),
        (first, last) => {
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last).then_some(Range { start: first, end: Some(last.saturating_add(1)) })
        }
    }
}

/// A body read on a thread where that may block. An error in the middle cuts the body short, which a
/// client sees by the announced length.
fn reading(mut reader: Reader) -> Body {
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(CHUNKS_WAITING);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let read = reader.read(&mut chunk);
            let piece = match read {
                Ok(0) => return,
                Ok(length) => {
                    chunk.truncate(length);
                    Ok(Bytes::from(chunk))
                }
                Err(error) => Err(io::Error::other(error)),
            };
            let over = piece.is_err();
            if sender.blocking_send(piece).is_err() || over {
                return;
            }
        }
    });
    Body::from_stream(pieces(receiver))
}

pub(crate) fn pieces(
    receiver: mpsc::Receiver<io::Result<Bytes>>,
) -> impl Stream<Item = io::Result<Bytes>> {
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    })
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
    session: &Session,
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
    Ok((status, Answer(entry(&shown, &stat))).into_response())
}

/// How much of a refused body is read, so that its connection can be used again.
const REFUSED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Refuses a body that has not been read to its end. A client that is still sending would not see the
/// answer if the connection were closed under it; one that sends much more is told not to use it again.
async fn refuse(problem: Problem, body: Body) -> Response {
    let rest = crate::http::json::read(body, REFUSED_BYTES_MAX).await;
    let mut response = problem.into_response();
    if rest.is_err() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
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
    let files = Arc::clone(session.files()?);
    // Refused before the answer begins, not in the middle of it.
    let checked = path.clone();
    let stat = work(&session, move |files| files.stat(&checked)).await?;
    if stat.kind != FileKind::Directory {
        return Err(FileError::NotDirectory(path.to_string()).into());
    }
    let (sender, mut receiver) = mpsc::channel::<io::Result<Bytes>>(CHUNKS_WAITING);
    tokio::task::spawn_blocking(move || {
        let mut pipe = Pipe::new(sender);
        let archived = files.archive(&path, &mut pipe);
        let flushed = archived.map_err(io::Error::other).and_then(|_| io::Write::flush(&mut pipe));
        if let Err(error) = flushed {
            // The client then sees an answer without its end.
            let _ = pipe.sender.blocking_send(Err(error));
        }
    });
    // What is wrong with the whole of it is found before the first piece.
    let first =
        receiver.recv().await.transpose().map_err(|error| match error.downcast::<FileError>() {
            Ok(error) => Problem::from(error),
            Err(_) => Problem::new(Code::Internal, "the archive could not be made"),
        })?;
    let first = futures_util::stream::iter(first.map(Ok));
    let body = Body::from_stream(first.chain(pieces(receiver)));
    Ok(([(header::CONTENT_TYPE, "application/x-tar")], body).into_response())
}

/// A writer whose pieces become a body.
pub(crate) struct Pipe {
    sender: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Pipe {
    pub(crate) fn new(sender: mpsc::Sender<io::Result<Bytes>>) -> Self {
        Self { sender, buffer: Vec::with_capacity(CHUNK_BYTES) }
    }
}

impl io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.sender.blocking_send(Ok(chunk.into())).map_err(gone)
    }
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
    let (sender, receiver) = mpsc::channel::<Bytes>(CHUNKS_WAITING);
    let (files, bytes_max) = (Arc::clone(session.files()?), session.disk_bytes());
    let unpacking = tokio::task::spawn_blocking(move || {
        let mut source = Source::new(receiver);
        files.extract(&path, &mut source, bytes_max)
    });
    let mut body = body;
    let fed = feed(&app, &caller.tenant, &mut body, &sender).await;
    drop(sender);
    let lost = |_| Problem::new(Code::Internal, "the archive was not unpacked");
    let unpacked = unpacking.await.map_err(lost)?;
    session.touch_files();
    let done = match (fed, unpacked) {
        (Ok(()), Ok(done)) => done,
        (Err(problem), _) => return Ok(refuse(problem, body).await),
        (Ok(()), Err(error)) => return Ok(refuse(error.into(), body).await),
    };
    Ok(Answer(json!({
        "files": done.files,
        "bytes": done.bytes,
        "left_out": done.left_out,
        "left_out_names": done.left_out_names,
    }))
    .into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkBody {
    path: String,
    #[serde(default)]
    method: Method,
    expires_seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
enum Method {
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
    let path = GuestPath::parse(&body.path)?;
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
        writes: body.method == Method::Put,
        expires: expires_at.as_micros(),
    };
    let url = format!("{}/v1/links/{}", app.options.public_url, app.link_key.seal(&link));
    Ok(Answer(json!({"url": url, "expires_at": expires_at.to_string()})).into_response())
}

/// The sandbox and path of a link, if it is good for this.
async fn follow(
    app: &App,
    token: &str,
    writes: bool,
) -> Result<(Arc<Session>, GuestPath), Problem> {
    let invalid = || Problem::new(Code::LinkInvalid, "this link is not valid, or not any more");
    let link = app.link_key.open(token, Timestamp::now()).ok_or_else(invalid)?;
    if link.writes != writes {
        return Err(invalid());
    }
    let tenant = Tenant::parse(&link.tenant).map_err(|_| invalid())?;
    if !app.sessions.store().keys().is_active(&tenant)? {
        return Err(invalid());
    }
    app.sessions.admission().request(&tenant)?;
    let caller = Caller { tenant, admin: false, approve: false };
    let session = session(app, &caller, &link.sandbox).await?;
    Ok((session, GuestPath::parse(&link.path)?))
}

/// `GET /v1/links/{token}`
pub(crate) async fn get_link(
    State(app): State<App>,
    Path(token): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (session, path) = follow(&app, &token, false).await?;
    let name = path.name().replace(['"', '\\'], "_");
    let mut response = send(&session, path, &headers).await?;
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
    body: Body,
) -> Result<Response, Problem> {
    let (session, path) = follow(&app, &token, true).await?;
    receive(&app, &session, path, silica_engine::FILE_MODE_DEFAULT, body).await
}
