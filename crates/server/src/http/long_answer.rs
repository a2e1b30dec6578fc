//! JSON responses of any length: a short one is made at once, a long one while the client reads it.

#[cfg(test)]
mod tests;

use std::io;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};
use silica_sessions::{Reservation, Resource};
use silica_store::Tenant;

use super::problem::{Code, Problem};
use super::transfer::{Transfer, write_pieces};
use crate::app::App;

/// The longest response that is made at once, in bytes.
const SHORT_BYTES_MAX: usize = 64 * 1024;

/// A value that is sent as JSON.
pub(crate) trait LongText: Serialize + Send + 'static {
    /// Returns about how many bytes its text has at least, if that is known without making it.
    fn bytes_least(&self) -> u64;
}

/// Responds to a key with JSON. A value whose text is long should keep its data in shared memory, since it lives until
/// the client has read the response.
pub(crate) async fn long_answer<T: LongText>(
    app: &App,
    tenant: &Tenant,
    value: T,
) -> Result<Response, Problem> {
    let body = match short_text(&value) {
        Ok(Some(short)) => Body::from(short),
        Ok(None) => {
            let transfer = Transfer::of_key(app, tenant).await?;
            let pieces = write_pieces(transfer, move |pipe| {
                serde_json::to_writer(pipe, &value).map_err(io::Error::from)
            });
            pieces?.into_body()
        }
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "a response could not be serialised");
            return Err(Problem::new(Code::Internal, "the response could not be serialised"));
        }
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Returns the whole text of a value; `None` if it is long. A value that is known to be long is not even begun: results of
/// a guest are parsed before they are written, which may take a second.
fn short_text<T: LongText>(value: &T) -> serde_json::Result<Option<Vec<u8>>> {
    if value.bytes_least() > SHORT_BYTES_MAX as u64 {
        return Ok(None);
    }
    let mut short = ShortText(Vec::new());
    match serde_json::to_writer(&mut short, value) {
        Ok(()) => Ok(Some(short.0)),
        Err(error) if error.is_io() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A text that refuses to become longer than [`SHORT_BYTES_MAX`].
struct ShortText(Vec<u8>);

impl io::Write for ShortText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > SHORT_BYTES_MAX - self.0.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts what a response holds in memory in the budget of its key.
pub(crate) fn hold(app: &App, tenant: &Tenant, bytes: u64) -> Result<Reservation, Problem> {
    let mut held = app.sessions.admission().hold(tenant, Resource::InFlightBytes);
    held.grow(bytes)?;
    Ok(held)
}

/// A value together with the part of a budget that counts its memory.
#[derive(Debug)]
pub(crate) struct Holding<T> {
    pub(crate) value: T,
    pub(crate) _held: Reservation,
}

impl<T: Serialize> Serialize for Holding<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<T: LongText> LongText for Holding<T> {
    fn bytes_least(&self) -> u64 {
        self.value.bytes_least()
    }
}
