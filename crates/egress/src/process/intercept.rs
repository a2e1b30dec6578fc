//! TLS that ends here: the guest sees a certificate of our authority, the far side is verified.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use silica_domain::DnsName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::connection::OpenConnection;
use super::http::{self, HttpConnection};
use super::refusal::Refusal;
use super::sandbox::Sandbox;

/// How long a guest's handshake may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(5);

/// Serves a connection whose hello named an allowed host. `first` was read already.
pub(super) async fn serve(
    sandbox: &Arc<Sandbox>,
    stream: TcpStream,
    open: &Arc<OpenConnection>,
    intercepted: Intercepted<'_>,
    first: Vec<u8>,
) -> Result<(), Refusal> {
    let config = sandbox.world.leaves.config(intercepted.name).map_err(|error| {
        tracing::error!(%error, "cannot make a certificate");
        Refusal::upstream("tls_failed", "no certificate could be made")
    })?;
    let accepted = TlsAcceptor::from(config).accept(Prefixed::new(stream, first));
    let stream = timeout(HANDSHAKE_PATIENCE, accepted)
        .await
        .map_err(|_| Refusal::forbidden("not_tls", "the handshake took too long"))?
        .map_err(|error| Refusal::forbidden("not_tls", format!("the handshake failed: {error}")))?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let context = HttpConnection::intercepted(sandbox, open, intercepted.closing);
    if is_http2 {
        http::serve_http2(Arc::new(context), stream).await;
    } else {
        http::serve_http1(Arc::new(context), stream).await;
    }
    Ok(())
}

/// What is intercepted.
pub(super) struct Intercepted<'connection> {
    pub(super) name: &'connection DnsName,
    pub(super) closing: Arc<Notify>,
}

/// A stream whose first bytes were read already.
pub(super) struct Prefixed<S> {
    first: Vec<u8>,
    read: usize,
    stream: S,
}

impl<S> Prefixed<S> {
    pub(super) fn new(stream: S, first: Vec<u8>) -> Self {
        Self { first, read: 0, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read < self.first.len() {
            let count = buffer.remaining().min(self.first.len() - self.read);
            buffer.put_slice(&self.first[self.read..self.read + count]);
            self.read += count;
            if self.read == self.first.len() {
                self.first = Vec::new();
                self.read = 0;
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
