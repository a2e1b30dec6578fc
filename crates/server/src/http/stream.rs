//! Server-sent events, many to a write.

use std::convert::Infallible;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use silica_sessions::{LogRead, LogReader};

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
pub(crate) trait EventSource: Send + 'static {
    /// Appends an entry.
    fn write(&self, chunk: &mut Vec<u8>, read: &LogRead);
}

/// Streams an event log to its end.
pub(crate) fn respond<S: EventSource>(reader: LogReader, source: S) -> Response {
    let state = State { reader, source };
    let stream = futures_util::stream::unfold(state, |mut state| async move {
        let chunk = state.next().await?;
        Some((Ok::<_, Infallible>(chunk), state))
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

struct State<S> {
    reader: LogReader,
    source: S,
}

impl<S: EventSource> State<S> {
    /// Returns every entry that is there as one chunk; waits if there is none.
    async fn next(&mut self) -> Option<Bytes> {
        let first = match tokio::time::timeout(KEEP_ALIVE, self.reader.next()).await {
            Ok(first) => first?,
            Err(_) => return Some(KEEP_ALIVE_COMMENT),
        };
        let mut chunk = Vec::new();
        self.source.write(&mut chunk, &first);
        while chunk.len() < CHUNK_BYTES
            && let Poll::Ready(Some(read)) = self.reader.try_next()
        {
            self.source.write(&mut chunk, &read);
        }
        Some(chunk.into())
    }
}

/// Appends an event.
pub(crate) fn event<T: Serialize>(chunk: &mut Vec<u8>, id: Option<u64>, name: &str, data: &T) {
    if let Some(id) = id {
        chunk.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    chunk.extend_from_slice(format!("event: {name}\ndata: ").as_bytes());
    // Writing to memory cannot fail, and every type that is streamed can be serialised.
    let _ = serde_json::to_writer(&mut *chunk, data);
    chunk.extend_from_slice(b"\n\n");
}
