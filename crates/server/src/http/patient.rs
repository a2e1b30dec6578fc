//! A socket that does not wait for ever for a client that reads nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::connection::Connection;

/// How long a client may take to accept the next byte of a response.
const WRITE_PATIENCE: Duration = Duration::from_mins(1);

/// A stream whose writes fail if the peer accepts no byte for [`WRITE_PATIENCE`].
#[derive(Debug)]
pub(super) struct PatientStream<S> {
    inner: S,
    /// Runs while a write is pending.
    stalled: Option<Pin<Box<Sleep>>>,
    reset: Option<ResetAtEnd<S>>,
}

/// What makes the end of a stream a reset, if its connection asks for it.
#[derive(Debug)]
struct ResetAtEnd<S> {
    connection: Arc<Connection>,
    reset: fn(&S),
}

impl<S> PatientStream<S> {
    #[cfg(test)]
    fn new(inner: S) -> Self {
        Self { inner, stalled: None, reset: None }
    }

    /// Returns the result of a write, or an error if writes have been pending for too long.
    fn judge<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let begin = || Box::pin(tokio::time::sleep(WRITE_PATIENCE));
        ready!(self.stalled.get_or_insert_with(begin).as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl PatientStream<TcpStream> {
    /// Takes a socket that ends with a reset if its connection asks for it.
    pub(super) fn of_connection(inner: TcpStream, connection: &Arc<Connection>) -> Self {
        // A socket that cannot be reset is closed.
        let reset = |socket: &TcpStream| drop(socket.set_zero_linger());
        let reset = ResetAtEnd { connection: Arc::clone(connection), reset };
        Self { inner, stalled: None, reset: Some(reset) }
    }
}

impl<S> Drop for PatientStream<S> {
    fn drop(&mut self) {
        if let Some(ResetAtEnd { connection, reset }) = &self.reset
            && connection.resets()
        {
            reset(&self.inner);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PatientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PatientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, buffers);
        self.judge(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_fails_the_write() {
        let (ours, _theirs) = tokio::io::duplex(4);
        let mut stream = PatientStream::new(ours);
        let began = tokio::time::Instant::now();
        let error = stream.write_all(b"longer than four").await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= WRITE_PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_is_waited_for() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut stream = PatientStream::new(ours);
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            for _ in 0..4 {
                tokio::time::sleep(WRITE_PATIENCE / 2).await;
                let mut four = [0; 4];
                theirs.read_exact(&mut four).await.expect("the writer is there");
                all.extend_from_slice(&four);
            }
            all
        });
        stream.write_all(b"longer than four").await.expect("each write makes progress");
        assert_eq!(reading.await.expect("the reader ends"), b"longer than four");
    }
}
