//! A file of a sandbox on its way out: whole or a range, at constant memory.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use silica_engine::{FileError, GuestPath, InsidePath, Range, ReadPath, Reader};
use silica_sessions::Session;

use super::files::read;
use super::problem::{Code, Problem};
use super::transfer::{PIECE_BYTES, Transfer, inside_pieces, read_pieces};
use crate::app::App;

/// A file of at most so many bytes is read at once, in the call that opens it.
const SHORT_BYTES_MAX: u64 = 64 * 1024;

/// Whether a link in the writable directories is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// It is refused.
    Refuse,
    /// A process in the sandbox follows it.
    FollowInside,
}

/// Sends a file, or the range of it that the headers ask for.
pub(crate) async fn send(
    app: &App,
    session: &Arc<Session>,
    path: ReadPath,
    headers: &HeaderMap,
    links: Links,
) -> Result<Response, Problem> {
    let path = match path {
        ReadPath::Inside(path) => return send_inside(app, session, &path, headers).await,
        ReadPath::Writable(path) => path,
    };
    let inside = InsidePath::from(&path);
    match open(session, path, wanted_range(headers), links).await? {
        Some(opened) => send_opened(app, session, opened).await,
        None => send_inside(app, session, &inside, headers).await,
    }
}

fn wanted_range(headers: &HeaderMap) -> Option<String> {
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    range.map(str::to_owned)
}

/// Opens a file in the writable directories; `None` if a link must be followed.
async fn open(
    session: &Session,
    path: GuestPath,
    range: Option<String>,
    links: Links,
) -> Result<Option<Opened>, Problem> {
    let opened = read(session, move |files| {
        let mut reader = match files.read(&path) {
            Err(FileError::Linked(_)) if links == Links::FollowInside => return Ok(None),
            reader => reader?,
        };
        let size = reader.size();
        // An empty file has no ranges: it is sent whole.
        let range = range.filter(|_| size > 0).and_then(|range| parse_range(&range, size));
        if let Some(range) = range {
            reader.select(range)?;
        }
        let length = reader.left();
        let short = if length <= SHORT_BYTES_MAX { Some(read_short(&mut reader)) } else { None };
        Ok(Some(Opened { reader, part: Part { range, size, length }, short }))
    });
    opened.await
}

async fn send_opened(
    app: &App,
    session: &Arc<Session>,
    opened: Opened,
) -> Result<Response, Problem> {
    let body = match opened.short {
        Some(Ok(short)) => Body::from(short),
        // The client sees that the body is shorter than announced.
        Some(Err(error)) => Body::from_stream(futures_util::stream::once(async {
            tokio::task::yield_now().await;
            Err::<Bytes, _>(error)
        })),
        None => {
            let transfer = Transfer::of_session(app, session).await?;
            read_pieces(transfer, opened.reader, read_piece).into_body()
        }
    };
    opened.part.answer(body)
}

/// Sends a file that a process in the sandbox reads.
async fn send_inside(
    app: &App,
    session: &Arc<Session>,
    path: &InsidePath,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let transfer = Transfer::of_session(app, session).await?;
    let mut reader = session.inside_read(path).await?;
    let size = reader.stat().size;
    let range = wanted_range(headers).filter(|_| size > 0);
    let range = range.and_then(|range| parse_range(&range, size));
    if let Some(range) = range {
        reader.select(range)?;
    }
    let part = Part { range, size, length: reader.left() };
    part.answer(inside_pieces(transfer, reader).into_body())
}

/// An open file and what is sent of it.
struct Opened {
    reader: Reader,
    part: Part,
    /// All of it, if it is short.
    short: Option<io::Result<Bytes>>,
}

/// How much of a file is sent.
struct Part {
    range: Option<Range>,
    size: u64,
    length: u64,
}

impl Part {
    fn answer(&self, body: Body) -> Result<Response, Problem> {
        let answer = self.head().body(body);
        answer.map_err(|_| Problem::new(Code::Internal, "the answer could not be made"))
    }

    fn head(&self) -> axum::http::response::Builder {
        let Self { range, size, length } = self;
        let status = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
        let mut answer = Response::builder()
            .status(status)
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .header(header::CONTENT_LENGTH, *length)
            .header(header::ACCEPT_RANGES, "bytes")
            .header(header::CONTENT_DISPOSITION, "attachment");
        if let Some(range) = range {
            let last = (range.start + length).saturating_sub(1);
            let shown = format!("bytes {}-{last}/{size}", range.start);
            answer = answer.header(header::CONTENT_RANGE, shown);
        }
        answer
    }
}

/// Parses one range of bytes: `bytes=0-99`, `bytes=100-` or `bytes=-100`. Returns `None`, which means
/// the whole file, for everything else, several ranges included (RFC 9110, 14.2).
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

/// Reads all that is left of a short file.
fn read_short(reader: &mut Reader) -> io::Result<Bytes> {
    let mut all = Vec::new();
    loop {
        let piece = read_piece(reader)?;
        if piece.is_empty() {
            return Ok(all.into());
        }
        all.extend_from_slice(&piece);
    }
}

/// Reads the next piece of a file; an empty one at the end. A file that a guest shortened is an error, which cuts the
/// body short.
pub(crate) fn read_piece(reader: &mut Reader) -> io::Result<Bytes> {
    let length = usize::try_from(reader.left()).unwrap_or(usize::MAX).min(PIECE_BYTES);
    if length == 0 {
        return Ok(Bytes::new());
    }
    let mut piece = vec![0; length];
    let length = reader.read(&mut piece).map_err(io::Error::other)?;
    piece.truncate(length);
    Ok(piece.into())
}
