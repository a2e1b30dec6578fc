//! Connect's frames: a byte of flags, four of length, JSON. Both ways, in streams only.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Buf, BytesMut};
use futures_util::Stream;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::E2bError;
use crate::http::in_flight::InFlight;
use crate::http::json::{BODY_PATIENCE, next_piece_within, parsed_bytes};
use crate::http::problem::{Code, Problem};

/// Flags, and the length of what follows.
const HEAD_BYTES: usize = 5;
/// The last frame of a stream.
const END: u8 = 0x02;
/// A compressed frame, which this server never agrees to.
const COMPRESSED: u8 = 0x01;

/// Without a charset, which one of the clients does not accept.
const KIND: &str = "application/connect+json";

/// How long the next message of a stream is waited for. Clients send a message without content every 90 seconds.
const MESSAGE_PATIENCE: Duration = Duration::from_mins(5);

/// Adds a frame with a message.
pub(super) fn message(into: &mut Vec<u8>, value: &Value) {
    frame(into, 0, value);
}

/// Adds the last frame of a stream that went well.
pub(super) fn end(into: &mut Vec<u8>) {
    frame(into, END, &json!({}));
}

/// Adds the last frame of a stream that did not.
pub(super) fn failed(into: &mut Vec<u8>, error: &Value) {
    frame(into, END, &json!({"error": error}));
}

fn frame(into: &mut Vec<u8>, flags: u8, value: &Value) {
    let start = into.len();
    into.extend_from_slice(&[flags, 0, 0, 0, 0]);
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut *into, value);
    let length = u32::try_from(into.len() - start - HEAD_BYTES).unwrap_or(u32::MAX);
    into[start + 1..start + HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
}

/// Returns a stream that consists of its failure.
pub(super) fn only_an_end(error: &Value) -> Response {
    let mut body = Vec::new();
    failed(&mut body, error);
    answer(Body::from(body))
}

/// A stream whose pieces are made of whole frames.
pub(super) fn stream<E>(pieces: impl Stream<Item = Result<Bytes, E>> + Send + 'static) -> Response
where
    E: Into<axum::BoxError> + 'static,
{
    answer(Body::from_stream(pieces))
}

fn answer(body: Body) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, KIND)], body).into_response()
}

/// The frames of a request. Their bytes count in the budget of its key until the next message is asked for.
pub(super) struct Frames {
    body: Body,
    waiting: BytesMut,
    bytes_max: usize,
    in_flight: InFlight,
    /// What the last message counts.
    message_bytes: u64,
    has_begun: bool,
}

impl Frames {
    /// Frames of at most so many bytes.
    pub(super) fn of(body: Body, bytes_max: usize, in_flight: InFlight) -> Self {
        let waiting = BytesMut::new();
        Self { body, waiting, bytes_max, in_flight, message_bytes: 0, has_begun: false }
    }

    /// The next message; `None` at the end of the stream.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, E2bError> {
        self.in_flight.shrink(std::mem::take(&mut self.message_bytes));
        loop {
            if let Some((flags, payload)) = self.whole()? {
                self.message_bytes = (HEAD_BYTES + payload.len()) as u64;
                if flags & END != 0 {
                    return Ok(None);
                }
                let parsed_bytes = parsed_bytes(&payload)?;
                self.in_flight.grow(parsed_bytes)?;
                self.message_bytes += parsed_bytes;
                let wrong = |error| E2bError::bad(format!("a message cannot be read: {error}"));
                return Ok(Some(serde_json::from_slice(&payload).map_err(wrong)?));
            }
            let may_wait = self.has_begun && self.waiting.is_empty();
            let patience = if may_wait { MESSAGE_PATIENCE } else { BODY_PATIENCE };
            match next_piece_within(&mut self.body, patience).await? {
                None if self.waiting.is_empty() => return Ok(None),
                None => return Err(E2bError::bad("the body ended before it was complete")),
                Some(bytes) => {
                    self.in_flight.grow(bytes.len() as u64)?;
                    self.has_begun = true;
                    self.waiting.extend_from_slice(&bytes);
                }
            }
        }
    }

    /// Returns the next frame, if it is complete.
    fn whole(&mut self) -> Result<Option<(u8, BytesMut)>, E2bError> {
        let Some((head, _)) = self.waiting.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let [flags, length @ ..] = *head;
        let length = u32::from_be_bytes(length) as usize;
        if flags & COMPRESSED != 0 {
            return Err(E2bError::bad("messages must not be compressed"));
        }
        if length > self.bytes_max {
            let max = self.bytes_max;
            let words = format!("a message is longer than {max} bytes");
            return Err(Problem::new(Code::TooLarge, words).into());
        }
        if self.waiting.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        self.waiting.advance(HEAD_BYTES);
        Ok(Some((flags, self.waiting.split_to(length))))
    }
}
