//! JSON bodies: read up to a bound and parsed strictly; JSON responses.

#[cfg(test)]
mod tests;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http::problem::{Code, Problem};

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
        parse(&read(request.into_body(), max).await?).map(Self)
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

/// Reads a body to its end, unless it is longer than `max`.
pub(crate) async fn read(body: Body, max: usize) -> Result<Bytes, Problem> {
    match Limited::new(body, max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Problem::new(Code::TooLarge, format!("the body is longer than {max} bytes")))
        }
        Err(_) => Err(Problem::bad("the body ended before it was complete")),
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
