//! A body that comes back when a handler did not read all of it.
//!
//! A client that is still sending when it is refused, and finds its connection closed, never sees why.
//! So what is left of a refused body is read, up to a point.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// How much of a refused body is read, and for how long.
const REFUSED_BYTES_MAX: usize = 8 * 1024 * 1024;
const REFUSED_PATIENCE: Duration = Duration::from_secs(10);

type Slot = Arc<Mutex<Option<Body>>>;

/// A body on loan.
struct Lent {
    body: Option<Body>,
    slot: Slot,
}

/// Where it comes back to.
pub(super) struct Lender(Slot);

/// Lends a body.
pub(super) fn lend(body: Body) -> (Body, Lender) {
    let slot = Slot::default();
    let lent = Lent { body: Some(body), slot: Arc::clone(&slot) };
    (Body::new(lent), Lender(slot))
}

impl Lender {
    /// Reads what has come back, and forgets it.
    pub(super) async fn read_rest(self) {
        let rest = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(rest) = rest.filter(|rest| !rest.is_end_stream()) {
            let reading = crate::http::json::read(rest, REFUSED_BYTES_MAX);
            // A client that goes on for longer than this will not see the answer.
            let _ = tokio::time::timeout(REFUSED_PATIENCE, reading).await;
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = self.body.take();
    }
}

impl HttpBody for Lent {
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
