//! Event logs as server-sent events, many events to a write.

use std::convert::Infallible;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use silica_sessions::{Event, Read, Reader, Text};

use crate::facade::native::render;

/// How much is put into one write.
const CHUNK_BYTES: usize = 128 * 1024;

/// A sign of life for proxies while nothing happens.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Whether a client wants events.
pub(crate) fn wanted(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accepts.is_some_and(|accept| accept.contains("text/event-stream"))
}

/// The number of the last event a client has had: from the header that browsers send, or the query.
pub(crate) fn last_event(headers: &HeaderMap, query: Option<u64>) -> u64 {
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    header.or(query).unwrap_or(0)
}

/// What a stream needs to know beside the log.
pub(crate) trait Told: Send + 'static {
    /// The data of `start`.
    fn start(&self) -> Value;
    /// The data of `done`.
    fn done(&self) -> Value;
}

/// An answer that lasts as long as what it tells of.
pub(crate) fn respond<T: Told>(reader: Reader, told: T) -> Response {
    let state = State { reader, told };
    let stream = futures_util::stream::unfold(state, |mut state| async move {
        let chunk = state.next().await?;
        Some((Ok::<_, Infallible>(chunk), state))
    });
    events(Body::from_stream(stream))
}

/// An answer that is a stream of events.
pub(crate) fn events(body: Body) -> Response {
    let kind = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (kind, body).into_response()
}

/// Says where what is streamed can be found again.
pub(crate) fn located(mut response: Response, place: &str) -> Response {
    if let Ok(place) = axum::http::HeaderValue::from_str(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

struct State<T> {
    reader: Reader,
    told: T,
}

impl<T: Told> State<T> {
    /// What there is, as one chunk; waits if there is nothing.
    async fn next(&mut self) -> Option<Bytes> {
        let first = match tokio::time::timeout(KEEP_ALIVE, self.reader.next()).await {
            Ok(first) => first?,
            Err(_) => return Some(Bytes::from_static(b": still here\n\n")),
        };
        let mut chunk = Vec::new();
        self.write(&mut chunk, &first);
        while chunk.len() < CHUNK_BYTES
            && let Poll::Ready(Some(read)) = self.reader.try_next()
        {
            self.write(&mut chunk, &read);
        }
        Some(chunk.into())
    }

    fn write(&self, chunk: &mut Vec<u8>, read: &Read) {
        match read {
            Read::Gap(events) => line(chunk, None, "gap", &json!({"events": events})),
            Read::Event(id, event) => match event {
                Event::Approval(record) => {
                    line(chunk, Some(*id), "approval", &render::approval(record));
                }
                Event::Start => line(chunk, Some(*id), "start", &self.told.start()),
                Event::Stdout(text) => output(chunk, *id, "stdout", text),
                Event::Stderr(text) => output(chunk, *id, "stderr", text),
                Event::Result(bundle) => line(chunk, Some(*id), "result", &render::bundle(bundle)),
                Event::Error(error) => line(chunk, Some(*id), "error", &render::error(error)),
                Event::Done => line(chunk, Some(*id), "done", &self.told.done()),
            },
        }
    }
}

pub(crate) fn line(chunk: &mut Vec<u8>, id: Option<u64>, event: &str, data: &Value) {
    opening(chunk, id, event);
    chunk.extend_from_slice(data.to_string().as_bytes());
    chunk.extend_from_slice(b"\n\n");
}

fn opening(chunk: &mut Vec<u8>, id: Option<u64>, event: &str) {
    if let Some(id) = id {
        chunk.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    chunk.extend_from_slice(format!("event: {event}\ndata: ").as_bytes());
}

/// Output is most of what is streamed, so it is written without a detour.
fn output(chunk: &mut Vec<u8>, id: u64, event: &str, text: &Text) {
    opening(chunk, Some(id), event);
    match text {
        Text::Utf8(text) => {
            chunk.extend_from_slice(b"{\"text\":");
            // Writing to memory cannot fail.
            let _ = serde_json::to_writer(&mut *chunk, &**text);
        }
        Text::Bytes(bytes) => {
            chunk.extend_from_slice(b"{\"base64\":\"");
            chunk.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            chunk.push(b'"');
        }
    }
    chunk.extend_from_slice(b"}\n\n");
}
