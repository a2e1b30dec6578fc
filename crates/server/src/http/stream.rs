//! Server-sent events, many to a write.

use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use silica_sessions::{LogEvent, LogRead, LogReader};
use silica_store::Tenant;

use super::transfer::{Pieces, Transfer, write_pieces};
use crate::app::App;

/// How much is put into one write.
const CHUNK_BYTES: usize = 128 * 1024;

/// How long a stream is silent before a comment keeps proxies from closing it.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The comment.
pub(crate) const KEEP_ALIVE_COMMENT: Bytes = Bytes::from_static(b": still here\n\n");

/// Whether a client asks for events.
pub(crate) fn wanted(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accepts.is_some_and(|accept| accept.contains("text/event-stream"))
}

/// Returns the number of the last event that a client has received, from the header that browsers
/// send or from the query.
pub(crate) fn last_event(headers: &HeaderMap, query: Option<u64>) -> u64 {
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    header.or(query).unwrap_or(0)
}

/// Writes the entries of an event log the way a facade shows them.
pub(crate) trait EventSource: Send + Sync + 'static {
    /// Writes an entry.
    fn write(&self, into: &mut dyn io::Write, read: &LogRead) -> io::Result<()>;
}

/// Streams an event log of a key to its end.
pub(crate) fn respond<S: EventSource>(
    app: &App,
    tenant: &Tenant,
    reader: LogReader,
    source: S,
) -> Response {
    let rendering = LogRendering {
        reader,
        source: Arc::new(source),
        next: None,
        long: LongEntry::new(app, tenant),
    };
    let stream = futures_util::stream::unfold(rendering, |mut rendering| async move {
        let chunk = rendering.next().await?;
        Some((chunk, rendering))
    });
    events(Body::from_stream(stream))
}

/// Returns a response whose body is a stream of events.
pub(crate) fn events(body: Body) -> Response {
    let kind = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (kind, body).into_response()
}

/// Sets the address at which the resource that is streamed can be read again.
pub(crate) fn located(mut response: Response, location: &str) -> Response {
    if let Ok(location) = axum::http::HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// An event log on its way to a client.
struct LogRendering<S> {
    reader: LogReader,
    source: Arc<S>,
    /// A long entry that was read and not yet written.
    next: Option<LogRead>,
    long: LongEntry,
}

impl<S: EventSource> LogRendering<S> {
    /// Returns every entry that is there as one chunk; waits if there is none.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if let Some(piece) = self.long.next().await {
            return Some(piece);
        }
        let first = match self.next.take() {
            Some(first) => first,
            None => match tokio::time::timeout(KEEP_ALIVE, self.reader.next()).await {
                Ok(first) => first?,
                Err(_) => return Some(Ok(KEEP_ALIVE_COMMENT)),
            },
        };
        if is_long(&first) {
            let source = Arc::clone(&self.source);
            return self.long.begin(move |pipe| source.write(pipe, &first)).await;
        }
        let mut chunk = Vec::new();
        // Writing to memory cannot fail.
        let _ = self.source.write(&mut chunk, &first);
        while chunk.len() < CHUNK_BYTES
            && let Poll::Ready(Some(read)) = self.reader.try_next()
        {
            if is_long(&read) {
                self.next = Some(read);
                break;
            }
            let _ = self.source.write(&mut chunk, &read);
        }
        Some(Ok(chunk.into()))
    }
}

/// A long entry of a log, which is written piece by piece while its client reads it.
pub(crate) struct LongEntry {
    app: App,
    tenant: Tenant,
    /// What is left of it.
    pieces: Option<Pieces>,
}

impl LongEntry {
    /// Returns an entry of which nothing is left.
    pub(crate) fn new(app: &App, tenant: &Tenant) -> Self {
        Self { app: app.clone(), tenant: tenant.clone(), pieces: None }
    }

    /// Returns the next piece; `None` if nothing is left.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let piece = self.pieces.as_mut()?.next().await;
        if piece.is_none() {
            self.pieces = None;
        }
        piece
    }

    /// Has an entry written, and returns its first piece.
    pub(crate) async fn begin(
        &mut self,
        write: impl FnOnce(&mut dyn io::Write) -> io::Result<()> + Send + 'static,
    ) -> Option<io::Result<Bytes>> {
        let transfer = Transfer::when_free(&self.app, &self.tenant).await;
        match write_pieces(transfer, move |pipe| write(pipe)) {
            Ok(pieces) => self.pieces = Some(pieces),
            Err(_) => return Some(Err(io::ErrorKind::OutOfMemory.into())),
        }
        self.next().await
    }
}

/// Returns whether the text of an entry may be so long that it is not made at once.
pub(crate) fn is_long(read: &LogRead) -> bool {
    let bytes = match read {
        LogRead::Event(_, LogEvent::Stdout(text) | LogEvent::Stderr(text)) => text.len(),
        LogRead::Event(_, LogEvent::Result(bundle)) => {
            usize::try_from(bundle.bytes()).unwrap_or(usize::MAX)
        }
        LogRead::Event(_, LogEvent::Error(error)) => {
            error.value.len() + error.traceback.iter().map(String::len).sum::<usize>()
        }
        LogRead::Event(_, LogEvent::Comm(comm)) => {
            usize::try_from(comm.bytes()).unwrap_or(usize::MAX)
        }
        LogRead::Event(_, LogEvent::Input { prompt, .. }) => prompt.len(),
        LogRead::Event(
            _,
            LogEvent::Approval(_) | LogEvent::Start | LogEvent::Clear { .. } | LogEvent::Done,
        )
        | LogRead::Gap(_) => 0,
    };
    bytes > CHUNK_BYTES
}

/// Writes an event.
pub(crate) fn event<T: Serialize>(
    into: &mut dyn io::Write,
    id: Option<u64>,
    name: &str,
    data: &T,
) -> io::Result<()> {
    if let Some(id) = id {
        writeln!(into, "id: {id}")?;
    }
    write!(into, "event: {name}\ndata: ")?;
    serde_json::to_writer(&mut *into, data)?;
    into.write_all(b"\n\n")
}
