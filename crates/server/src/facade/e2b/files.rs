//! The content of files: `GET /files` and `POST /files`, by a token or a signed address.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::{RawQuery, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use silica_engine::{FILE_MODE_DEFAULT, Metadata, ReadPath, Reader};
use silica_sessions::Session;

use super::access::{self, EnvdSession, Signed};
use super::error::{E2bError, E2bResult};
use super::paths;
use crate::app::App;
use crate::http::download::{Links, read_piece, send};
use crate::http::files::read;
use crate::http::json::Answer;
use crate::http::problem::{Code, Problem};
use crate::http::transfer::{Transfer, write_pieces};
use crate::http::upload::{Encoding, Upload, store};

/// The prefix of headers with metadata of a file.
const METADATA_PREFIX: &str = "x-metadata-";

/// The most files in one upload.
const PARTS_MAX: usize = 10_000;

/// The query of a URL of a file.
#[derive(Debug, Default)]
struct Query {
    path: Option<String>,
    username: String,
    signature: Option<String>,
    expiration: Option<String>,
}

fn query(raw: Option<&str>) -> Result<Query, E2bError> {
    let pairs: BTreeMap<String, String> = serde_urlencoded::from_str(raw.unwrap_or_default())
        .map_err(|error| E2bError::bad(format!("the query cannot be read: {error}")))?;
    let mut query = Query::default();
    for (name, value) in pairs {
        match name.as_str() {
            "path" => query.path = Some(value),
            "username" => query.username = value,
            "signature" => query.signature = Some(value),
            "signature_expiration" => query.expiration = Some(value),
            _ => {}
        }
    }
    Ok(query)
}

/// Returns the sandbox of a request that has its token or a signed URL.
async fn reach(
    app: &App,
    parts: &mut Parts,
    query: &Query,
    operation: &'static str,
) -> Result<Arc<Session>, E2bError> {
    access::check_username(&query.username)?;
    let Some(signature) = &query.signature else {
        let EnvdSession(session) = EnvdSession::from_request_parts(parts, app).await?;
        return Ok(session);
    };
    let signed = Signed {
        path: query.path.as_deref().unwrap_or_default(),
        operation,
        username: &query.username,
        signature,
        expiration: query.expiration.as_deref(),
    };
    access::signed(app, parts, &signed).await
}

/// `GET /files`
pub(super) async fn download(
    State(app): State<App>,
    RawQuery(raw): RawQuery,
    request: Request,
) -> E2bResult {
    let (mut parts, _) = request.into_parts();
    let query = query(raw.as_deref())?;
    let session = reach(&app, &mut parts, &query, "read").await?;
    let path = paths::readable(query.path.as_deref().unwrap_or_default())?;
    let name = path.name().replace(['"', '\\'], "_");
    let reader = match &path {
        ReadPath::Writable(path) if wants_gzip(&parts.headers) => {
            let path = path.clone();
            // What cannot be opened is refused, or followed, by what follows.
            read(&session, move |files| Ok(files.read(&path).ok())).await?
        }
        ReadPath::Writable(_) | ReadPath::Inside(_) => None,
    };
    let mut response = match reader {
        Some(reader) => packed(Transfer::of_session(&app, &session).await?, reader)?,
        None => send(&app, &session, path, &parts.headers, Links::FollowInside).await?,
    };
    if let Ok(value) = HeaderValue::from_str(&format!("inline; filename=\"{name}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

/// Only where nothing else is accepted: packing costs more than a fast network saves.
fn wants_gzip(headers: &HeaderMap) -> bool {
    let accepts = access::header(headers, header::ACCEPT_ENCODING.as_str());
    accepts == Some("gzip") && !headers.contains_key(header::RANGE)
}

/// A file, packed as it is read.
fn packed(transfer: Transfer, mut reader: Reader) -> Result<Response, Problem> {
    let pieces = write_pieces(transfer, move |pipe| {
        let mut packer = GzEncoder::new(pipe, Compression::fast());
        loop {
            let piece = read_piece(&mut reader)?;
            if piece.is_empty() {
                return packer.try_finish();
            }
            packer.write_all(&piece)?;
        }
    })?;
    let kind =
        [(header::CONTENT_TYPE, "application/octet-stream"), (header::CONTENT_ENCODING, "gzip")];
    Ok((StatusCode::OK, kind, pieces.into_body()).into_response())
}

/// `POST /files`
pub(super) async fn upload(
    State(app): State<App>,
    RawQuery(raw): RawQuery,
    request: Request,
) -> E2bResult {
    let (mut parts, body) = request.into_parts();
    let query = query(raw.as_deref())?;
    let session = reach(&app, &mut parts, &query, "write").await?;
    let upload = Incoming {
        app: &app,
        session: &session,
        metadata: metadata(&parts.headers),
        path: query.path,
    };
    let kind = access::header(&parts.headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let written = match multer::parse_boundary(kind) {
        Ok(boundary) => upload.parts(body, boundary).await?,
        Err(_) => upload.whole(body, &parts.headers).await?,
    };
    Ok(Answer(written).into_response())
}

fn metadata(headers: &HeaderMap) -> Metadata {
    let pairs = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(METADATA_PREFIX)?;
        Some((name.to_owned(), value.to_str().ok()?.to_owned()))
    });
    pairs.collect()
}

/// Files on their way in.
struct Incoming<'a> {
    app: &'a App,
    session: &'a Arc<Session>,
    metadata: Metadata,
    path: Option<String>,
}

impl Incoming<'_> {
    /// One file, as it is or packed.
    async fn whole(&self, mut body: Body, headers: &HeaderMap) -> Result<Vec<Value>, E2bError> {
        let encoding = match access::header(headers, header::CONTENT_ENCODING.as_str()) {
            None | Some("" | "identity") => Encoding::Plain,
            Some("gzip") => Encoding::Gzip,
            Some(other) => return Err(E2bError::bad(format!("{other:?} cannot be unpacked"))),
        };
        let path = self.path.as_deref().ok_or_else(|| E2bError::bad("there is no path"))?;
        Ok(vec![self.write(path, encoding, &mut body).await?])
    }

    /// Any number of files in the parts of a form. With one, the address says where it goes.
    async fn parts(&self, body: Body, boundary: String) -> Result<Vec<Value>, E2bError> {
        let mut form = multer::Multipart::new(body.into_data_stream(), boundary);
        let mut written = Vec::new();
        let wrong = |error: multer::Error| E2bError::bad(format!("the form is broken: {error}"));
        while let Some(part) = form.next_field().await.map_err(wrong)? {
            if written.len() == PARTS_MAX {
                return Err(E2bError::bad(format!("more than {PARTS_MAX} files at once")));
            }
            let named = part.file_name().map(|name| name.replace("%22", "\""));
            let path = self.path.clone().or(named);
            let path = path.ok_or_else(|| E2bError::bad("a file has no name"))?;
            let mut content = Body::from_stream(part);
            written.push(self.write(&path, Encoding::Plain, &mut content).await?);
        }
        if written.is_empty() {
            return Err(E2bError::bad("there is no file in the form"));
        }
        Ok(written)
    }

    async fn write(
        &self,
        path: &str,
        encoding: Encoding,
        body: &mut Body,
    ) -> Result<Value, E2bError> {
        let path = paths::guest(path)?;
        let (shown, name) = (path.to_string(), path.name().to_owned());
        let upload =
            Upload { path, mode: FILE_MODE_DEFAULT, metadata: self.metadata.clone(), encoding };
        let stored = store(self.app, self.session, upload, body).await;
        stored.map_err(|problem| match problem.code() {
            Code::TooLarge => Problem::new(Code::DiskFull, format!("not enough space for {shown}")),
            _ => problem,
        })?;
        let mut written = json!({"path": shown, "name": name, "type": "file"});
        if !self.metadata.is_empty() {
            written["metadata"] = json!(self.metadata);
        }
        Ok(written)
    }
}
