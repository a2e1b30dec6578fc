//! What is left of the body of a request that is refused.
//!
//! A client that is still sending when its connection is closed never sees the response. So the rest
//! of a refused body is read, up to a bound.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};

use super::problem::Problem;

/// How much of a refused body is read.
const REFUSED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long the rest of a refused body is read.
const REFUSED_PATIENCE: Duration = Duration::from_secs(10);

type Slot = Arc<Mutex<Option<Body>>>;

/// A body that goes back into its slot when it is dropped.
struct ReturnableBody {
    body: Option<Body>,
    slot: Slot,
}

/// The slot of a [`lend`]ed body.
pub(crate) struct ReturnedBody(Slot);

/// Wraps a body so that what a handler leaves unread can be read afterwards.
pub(crate) fn lend(body: Body) -> (Body, ReturnedBody) {
    let slot = Slot::default();
    let returnable = ReturnableBody { body: Some(body), slot: Arc::clone(&slot) };
    (Body::new(returnable), ReturnedBody(slot))
}

impl ReturnedBody {
    /// Reads and discards what the handler left unread.
    pub(crate) async fn read_rest(self) {
        let rest = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(rest) = rest.filter(|rest| !rest.is_end_stream()) {
            let reading = super::json::read(rest, REFUSED_BYTES_MAX);
            // A client that goes on for longer than this will not see the answer.
            let _ = tokio::time::timeout(REFUSED_PATIENCE, reading).await;
        }
    }
}

/// Refuses a request whose body has not been read to its end. If more is left than is read here, the
/// response also closes the connection.
pub(crate) async fn refuse(problem: Problem, body: Body) -> Response {
    let rest = super::json::read(body, REFUSED_BYTES_MAX).await;
    let mut response = problem.into_response();
    if rest.is_err() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

impl Drop for ReturnableBody {
    fn drop(&mut self) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
    }
}

impl HttpBody for ReturnableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}
