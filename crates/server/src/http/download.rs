//! A file of a sandbox on its way out: whole or a range, at constant memory.

#[cfg(test)]
mod tests;

use std::io;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use silica_engine::{GuestPath, Range, Reader};
use silica_sessions::Session;
use tokio::sync::mpsc;

use super::files::read;
use super::problem::{Code, Problem};

/// The size of the pieces of a transfer.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;

/// How many pieces wait for a slow client or a slow disk: a transfer holds so much memory.
pub(crate) const CHUNKS_WAITING: usize = 4;

/// Sends a file, or the range of it that the headers ask for.
pub(crate) async fn send(
    session: &Session,
    path: GuestPath,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let mut reader = read(session, move |files| files.read(&path)).await?;
    let size = reader.size();
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    // An empty file has no ranges: it is sent whole.
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

/// Reads a file on a blocking thread. An error in the middle, or a guest that shortens the file, cuts
/// the body short, which a client detects by the announced length.
fn reading(mut reader: Reader) -> Body {
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(CHUNKS_WAITING);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let read = reader.read(&mut chunk);
            let piece = match read {
                Ok(0) if reader.left() == 0 => return,
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
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

/// Turns pieces from a blocking thread into the stream of a body.
pub(crate) fn pieces(
    receiver: mpsc::Receiver<io::Result<Bytes>>,
) -> impl Stream<Item = io::Result<Bytes>> {
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        if piece.is_err() {
            // The connection is closed at an error, with everything that was not flushed yet: the
            // head of the response, too. It flushes when a body has nothing ready.
            tokio::task::yield_now().await;
        }
        Some((piece, receiver))
    })
}

/// A writer on a blocking thread whose pieces become a body.
pub(crate) struct Pipe {
    sender: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl Pipe {
    pub(crate) fn new(sender: mpsc::Sender<io::Result<Bytes>>) -> Self {
        Self { sender, buffer: Vec::with_capacity(CHUNK_BYTES) }
    }

    /// Ends the body with an error.
    pub(crate) fn fail(&self, error: io::Error) {
        // Fails only if the client has left.
        let _ = self.sender.blocking_send(Err(error));
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
