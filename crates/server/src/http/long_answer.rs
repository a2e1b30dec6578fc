//! JSON responses of any length: a short one is made at once, a long one while the client reads it.

use std::io;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};
use silica_sessions::Reservation;
use silica_store::Tenant;

use super::problem::{Code, Problem};
use super::transfer::{Transfer, write_pieces};
use crate::app::App;

/// The longest response that is made at once, in bytes.
const SHORT_BYTES_MAX: usize = 64 * 1024;

/// Responds to a key with JSON. A value whose text is long should keep its data in shared memory, since it lives until
/// the client has read the response.
pub(crate) async fn long_answer<T: Serialize + Send + 'static>(
    app: &App,
    tenant: &Tenant,
    value: T,
) -> Result<Response, Problem> {
    let mut short = ShortText(Vec::new());
    let body = match serde_json::to_writer(&mut short, &value) {
        Ok(()) => Body::from(short.0),
        Err(error) if error.is_io() => {
            drop(short);
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
