//! Bodies on their way through: they end with their sandbox, and when nothing comes for too long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures_util::future::BoxFuture;
use hyper::body::{Frame, SizeHint};
use hyper::client::conn::http1::SendRequest;
use silica_sessions::{PortUse, Session};
use tokio::time::{Instant, Sleep};

use super::Target;
use super::kept::KeptConnections;

/// How long no piece of a body may come before the exchange is broken off.
pub(super) const IDLE_PATIENCE: Duration = Duration::from_mins(5);

/// How often traffic counts as use of its sandbox.
pub(super) const NOTE_PAUSE: Duration = Duration::from_secs(1);

/// A body that is passed on.
pub(super) struct WatchedBody<B: HttpBody> {
    inner: B,
    session: Arc<Session>,
    ended: BoxFuture<'static, ()>,
    idle: Pin<Box<Sleep>>,
    noted: Instant,
    /// Held until the body has been passed on.
    working: Option<PortUse>,
    /// The connection that it comes from, to be kept if it is read to its end.
    reusable: Option<Reusable>,
}

struct Reusable {
    sender: SendRequest<Body>,
    kept: Arc<KeptConnections>,
    target: Target,
}

impl<B: HttpBody> WatchedBody<B> {
    pub(super) fn new(inner: B, session: &Arc<Session>) -> Self {
        let of_sandbox = Arc::clone(session);
        Self {
            inner,
            session: Arc::clone(session),
            ended: Box::pin(async move { of_sandbox.ended().await }),
            idle: Box::pin(tokio::time::sleep(IDLE_PATIENCE)),
            noted: Instant::now(),
            working: None,
            reusable: None,
        }
    }

    /// Keeps the session active until the body has been passed on.
    pub(super) fn holding(mut self, working: PortUse) -> Self {
        self.working = Some(working);
        self
    }

    /// Keeps the connection of the body if it is read to its end.
    pub(super) fn returning(
        mut self,
        sender: SendRequest<Body>,
        kept: &Arc<KeptConnections>,
        target: &Target,
    ) -> Self {
        self.reusable = Some(Reusable { sender, kept: Arc::clone(kept), target: target.clone() });
        self
    }

    fn note(&mut self) {
        let now = Instant::now();
        self.idle.as_mut().reset(now + IDLE_PATIENCE);
        if now.duration_since(self.noted) >= NOTE_PAUSE {
            self.noted = now;
            // One that has ended is noticed by `ended`.
            let _ = self.session.note_traffic();
        }
    }
}

impl<B> HttpBody for WatchedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err("the sandbox has ended".into())));
        }
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(frame) => {
                self.note();
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => {
                ready!(self.idle.as_mut().poll(context));
                Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: HttpBody> Drop for WatchedBody<B> {
    fn drop(&mut self) {
        if let Some(Reusable { sender, kept, target }) = self.reusable.take()
            && self.inner.is_end_stream()
        {
            kept.put(sender, target);
        }
    }
}
