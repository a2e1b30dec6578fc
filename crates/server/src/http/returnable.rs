//! What is left of the body of a request that a handler has not read to its end.
//!
//! A client that is still sending when its connection is closed never sees the response. So the rest
//! of a refused body is read, up to a bound. And a client that sends the end of its body a moment after
//! what the handler needed sees its connection closed under the next request, unless that end is read.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
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
            // A client that goes on for longer than this will not see the answer.
            discard(rest).await;
        }
    }
}

/// Reads a body to its end, up to a bound, and keeps nothing. Returns whether it came to its end.
async fn discard(mut body: Body) -> bool {
    let reading = async {
        let mut left = REFUSED_BYTES_MAX;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return false,
            }
        }
        true
    };
    tokio::time::timeout(REFUSED_PATIENCE, reading).await.unwrap_or(false)
}

/// A body whose rest is read when it is dropped.
struct DrainedBody(Body);

/// Wraps the body of a request so that its connection can be used again, even if the handler leaves the
/// end of the body unread.
pub(crate) fn drained(body: Body) -> Body {
    if body.is_end_stream() { body } else { Body::new(DrainedBody(body)) }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        if self.0.is_end_stream() {
            return;
        }
        let body = std::mem::replace(&mut self.0, Body::empty());
        // There is no runtime when the process ends.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(discard(body));
        }
    }
}

impl HttpBody for DrainedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// Refuses a request whose body has not been read to its end. If more is left than is read here, the
/// response also closes the connection.
pub(crate) async fn refuse(problem: Problem, body: Body) -> Response {
    let is_complete = discard(body).await;
    let mut response = problem.into_response();
    if !is_complete {
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
