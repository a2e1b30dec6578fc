//! A connection that has changed its protocol: bytes go both ways until one side ends it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use silica_sessions::{PortUse, Session};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::body::{IDLE_PATIENCE, NOTE_PAUSE};
use crate::http::connection::Connection;

/// How long both sides may take to change the protocol once they have agreed to.
const UPGRADE_PATIENCE: Duration = Duration::from_secs(10);

/// What a tunnel holds until its end.
pub(super) struct Tunnel {
    pub(super) session: Arc<Session>,
    pub(super) working: PortUse,
    /// The client's connection, which counts for a key.
    pub(super) connection: Option<Arc<Connection>>,
}

impl Tunnel {
    /// Passes bytes on in a task of its own, once the client has the response.
    pub(super) fn start(self, client: OnUpgrade, server: OnUpgrade) {
        tokio::spawn(async move {
            let both = async { tokio::try_join!(client, server) };
            let Ok(Ok((client, server))) = tokio::time::timeout(UPGRADE_PATIENCE, both).await
            else {
                return;
            };
            let moved = Arc::new(AtomicBool::new(false));
            let mut client = Noting { inner: TokioIo::new(client), moved: Arc::clone(&moved) };
            let mut server = TokioIo::new(server);
            tokio::select! {
                // Both ways of ending are the end of it.
                _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                () = self.session.ended() => {}
                () = stays_idle(&self.session, &moved) => {}
            }
            drop((self.working, self.connection));
        });
    }
}

/// Is ready when nothing has moved for too long. Notes what moves as use of the sandbox.
async fn stays_idle(session: &Session, moved: &AtomicBool) {
    let mut last = Instant::now();
    while last.elapsed() < IDLE_PATIENCE {
        tokio::time::sleep(NOTE_PAUSE).await;
        if moved.swap(false, Ordering::Relaxed) {
            last = Instant::now();
            // One that has ended is noticed elsewhere.
            let _ = session.note_traffic();
        }
    }
}

/// A stream that notes when bytes move through it.
struct Noting<S> {
    inner: S,
    moved: Arc<AtomicBool>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Noting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if read.is_ready() {
            self.moved.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noting<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        if written.is_ready() {
            self.moved.store(true, Ordering::Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
