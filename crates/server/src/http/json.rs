//! JSON bodies: read up to bounds and parsed strictly; short JSON responses.

#[cfg(test)]
mod tests;

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use http_body_util::BodyExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http::in_flight::InFlight;
use crate::http::problem::{Code, Problem};

/// How long the next piece of a body is waited for.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// The most values in a body. A value of two bytes may take a hundred times as much memory once it is parsed.
const VALUES_MAX: usize = 100_000;

/// What a value counts in memory, in bytes.
const VALUE_BYTES: usize = 128;

/// Shorter bodies have few values.
const COUNTED_BYTES_MIN: usize = 4096;

/// The largest JSON body in bytes, in the extensions of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyMax(pub(crate) usize);

/// A JSON body. An empty body means `{}`.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let max = request.extensions().get::<BodyMax>().map_or(0, |max| max.0);
        let in_flight = InFlight::of(request.extensions());
        let bytes = read(request.into_body(), max, &in_flight).await?;
        in_flight.grow(parsed_bytes(&bytes)?)?;
        parse(&bytes).map(Self)
    }
}

/// Parses a whole body.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let text = if bytes.is_empty() { b"{}" } else { bytes };
    // serde would also take a list of the fields, which breaks when a field is added.
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::bad("the body must be a JSON object"));
    }
    serde_json::from_slice(text).map_err(|error| {
        let place = place::<T>(text).map(|place| format!("{place}: ")).unwrap_or_default();
        Problem::bad(format!("invalid request body: {place}{error}"))
    })
}

/// The longest path to a fault that an error repeats; keys of the client may be longer.
const PLACE_CHARS_MAX: usize = 100;

/// Returns the path to the fault in a body that cannot be parsed, such as `files[0].path`.
fn place<T: DeserializeOwned>(text: &[u8]) -> Option<String> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let error = serde_path_to_error::deserialize::<_, T>(&mut parser).err()?;
    let place = error.path().to_string();
    let is_known = !matches!(place.as_str(), "." | "?");
    (is_known && place.len() <= PLACE_CHARS_MAX).then_some(place)
}

/// Returns how many bytes of memory the values of a JSON text may take, beside the text.
pub(crate) fn parsed_bytes(text: &[u8]) -> Result<u64, Problem> {
    if text.len() < COUNTED_BYTES_MIN {
        return Ok(0);
    }
    Ok((count_values(text)? * VALUE_BYTES) as u64)
}

/// Returns about how many values are in a JSON text: each is followed by a comma, or is the last of its list.
fn count_values(text: &[u8]) -> Result<usize, Problem> {
    let mut values = 0;
    let mut in_string = false;
    let mut is_escaped = false;
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    if values > VALUES_MAX {
        let words = format!("the body has more than {VALUES_MAX} values");
        return Err(Problem::new(Code::TooLarge, words));
    }
    Ok(values)
}

/// Reads a body to its end, unless it is longer than `max` or takes more memory than its key has left.
pub(crate) async fn read(
    mut body: Body,
    max: usize,
    in_flight: &InFlight,
) -> Result<Bytes, Problem> {
    let mut all = BytesMut::new();
    while let Some(piece) = next_piece(&mut body).await? {
        if piece.len() > max.saturating_sub(all.len()) {
            let words = format!("the body is longer than {max} bytes");
            return Err(Problem::new(Code::TooLarge, words));
        }
        in_flight.grow(piece.len() as u64)?;
        if all.is_empty() && hyper::body::Body::is_end_stream(&body) {
            return Ok(piece);
        }
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

/// Returns the next piece of a body, or `None` at its end. Waits for at most [`BODY_PATIENCE`].
pub(crate) async fn next_piece(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    next_piece_within(body, BODY_PATIENCE).await
}

/// Returns the next piece of a body, or `None` at its end. Waits for at most `patience`.
pub(crate) async fn next_piece_within(
    body: &mut Body,
    patience: Duration,
) -> Result<Option<Bytes>, Problem> {
    loop {
        let frame = tokio::time::timeout(patience, body.frame()).await.map_err(|_| {
            let seconds = patience.as_secs();
            let words = format!("no byte of the body arrived for {seconds} seconds");
            Problem::new(Code::RequestTimeout, words)
        })?;
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|_| Problem::bad("the body ended before it was complete"))?;
        match frame.into_data() {
            Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
            // An empty piece, or trailers.
            Ok(_) | Err(_) => {}
        }
    }
}

/// An answer in JSON.
#[derive(Debug)]
pub(crate) struct Answer<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a response could not be serialised"
                );
                Problem::new(Code::Internal, "the response could not be serialised").into_response()
            }
        }
    }
}
