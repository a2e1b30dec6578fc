//! Bodies that are made piece by piece, as fast as the client reads them.
//!
//! No thread of the runtime's pool waits for a client. A file is read by a task that borrows a thread for each piece. What can
//! only be written in one go, such as an archive or a long JSON text, is written on a thread of its own. Both
//! need a permit, of which each key has a few, and both end with their sandbox: a client that reads nothing does not
//! keep the memory of a deleted sandbox.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use silica_sessions::{InsideFile, Permit, Session};
use silica_store::Tenant;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::problem::{Code, Problem};
use crate::app::App;

/// The size of the pieces of a transfer.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;

/// How many pieces wait for a slow client or a slow disk: a transfer holds so much memory.
pub(crate) const PIECES_WAITING: usize = 2;

/// The right to transfer something.
#[derive(Debug)]
pub(crate) struct Transfer {
    permit: Arc<Permit>,
    /// The sandbox with which the transfer ends.
    session: Option<Arc<Session>>,
}

impl Transfer {
    /// Waits until a key may transfer something of a sandbox.
    pub(crate) async fn of_session(app: &App, session: &Arc<Session>) -> Result<Self, Problem> {
        let permit = app.sessions.admission().transfer(session.tenant()).await?;
        Ok(Self { permit: Arc::new(permit), session: Some(Arc::clone(session)) })
    }

    /// Waits until a key may transfer something that the server keeps.
    pub(crate) async fn of_key(app: &App, tenant: &Tenant) -> Result<Self, Problem> {
        let permit = app.sessions.admission().transfer(tenant).await?;
        Ok(Self { permit: Arc::new(permit), session: None })
    }

    /// Waits as long as it takes until a key may transfer something that the server keeps.
    pub(crate) async fn when_free(app: &App, tenant: &Tenant) -> Self {
        loop {
            if let Ok(transfer) = Self::of_key(app, tenant).await {
                return transfer;
            }
        }
    }
}

/// Waits until a transfer must end with its sandbox.
async fn ended(session: Option<&Session>) {
    match session {
        Some(session) => session.ended().await,
        None => std::future::pending().await,
    }
}

/// Where the pieces of a body come from. An empty piece marks its end; a body without one was cut short.
#[derive(Debug)]
pub(crate) struct Pieces {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    /// The transfer lasts until the last piece was sent and its thread or task has ended.
    _permit: Arc<Permit>,
}

impl Pieces {
    /// Returns the next piece, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let piece = self.receiver.recv().await;
        let piece = piece.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
        match piece {
            Ok(piece) if piece.is_empty() => None,
            Ok(piece) => Some(Ok(piece)),
            Err(error) => {
                // The connection is closed at an error, with everything that was not flushed yet: the
                // head of the response, too. It flushes when a body has nothing ready.
                tokio::task::yield_now().await;
                Some(Err(error))
            }
        }
    }

    /// Returns the body that consists of `first`, if there is one, and the pieces.
    pub(crate) fn into_body_after(self, first: Option<Bytes>) -> Body {
        match first {
            // The end was the first piece.
            None => Body::empty(),
            Some(first) => {
                let first = futures_util::stream::iter([Ok(first)]);
                Body::from_stream(first.chain(self.into_stream()))
            }
        }
    }

    /// Returns the body that consists of the pieces.
    pub(crate) fn into_body(self) -> Body {
        Body::from_stream(self.into_stream())
    }

    fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> {
        futures_util::stream::unfold(Some(self), |pieces| async move {
            let mut pieces = pieces?;
            let piece = pieces.next().await?;
            let rest = piece.is_ok().then_some(pieces);
            Some((piece, rest))
        })
    }
}

/// Has the pieces of a body read one after the other. `read` returns an empty piece at the end; it is called on a
/// thread that may block.
pub(crate) fn read_pieces<R: Send + 'static>(
    transfer: Transfer,
    mut reader: R,
    read: fn(&mut R) -> io::Result<Bytes>,
) -> Pieces {
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    let Transfer { permit, session } = transfer;
    let held = Arc::clone(&permit);
    tokio::spawn(async move {
        let _held = held;
        loop {
            let reading = tokio::task::spawn_blocking(move || {
                let piece = read(&mut reader);
                (reader, piece)
            });
            // It cannot be joined if it panicked, or if the server is shutting down.
            let Ok((used, piece)) = reading.await else { return };
            reader = used;
            let is_last = piece.as_ref().map_or(true, Bytes::is_empty);
            tokio::select! {
                biased;
                () = ended(session.as_deref()) => return,
                sent = sender.send(piece) => if sent.is_err() || is_last { return },
            }
        }
    });
    Pieces { receiver, _permit: permit }
}

/// Has the pieces of a body read by a process in the sandbox.
pub(crate) fn inside_pieces(transfer: Transfer, mut reader: InsideFile) -> Pieces {
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    let Transfer { permit, session } = transfer;
    let held = Arc::clone(&permit);
    tokio::spawn(async move {
        let _held = held;
        loop {
            let piece = reader.next().await.map(Bytes::from).map_err(io::Error::other);
            let is_last = piece.as_ref().map_or(true, Bytes::is_empty);
            tokio::select! {
                biased;
                () = ended(session.as_deref()) => return,
                sent = sender.send(piece) => if sent.is_err() || is_last { return },
            }
        }
    });
    Pieces { receiver, _permit: permit }
}

/// Has a body written on a thread of its own.
pub(crate) fn write_pieces(
    transfer: Transfer,
    write: impl FnOnce(&mut Pipe) -> io::Result<()> + Send + 'static,
) -> Result<Pieces, Problem> {
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    let Transfer { permit, session } = transfer;
    let mut pipe = Pipe { sender, session, runtime: Handle::current(), buffer: Vec::new() };
    let held = Arc::clone(&permit);
    own_thread(move || {
        let _held = held;
        let written = write(&mut pipe).and_then(|()| io::Write::flush(&mut pipe));
        // Fails only if the client has left or the sandbox has ended.
        let _ = pipe.send(written.map(|()| Bytes::new()));
    })?;
    Ok(Pieces { receiver, _permit: permit })
}

/// Does work that waits for a client, on a thread of its own. The number of transfers bounds the number of threads.
pub(crate) fn own_thread(work: impl FnOnce() + Send + 'static) -> Result<(), Problem> {
    let spawned = std::thread::Builder::new().name("transfer".to_owned()).spawn(work);
    spawned.map(drop).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "no thread for a transfer");
        Problem::new(Code::Internal, "the server has no thread left for this transfer")
    })
}

/// A writer whose pieces become a body. It must not be used on a thread of the runtime.
pub(crate) struct Pipe {
    sender: mpsc::Sender<io::Result<Bytes>>,
    session: Option<Arc<Session>>,
    runtime: Handle,
    buffer: Vec<u8>,
}

impl Pipe {
    fn send(&self, piece: io::Result<Bytes>) -> io::Result<()> {
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = ended(self.session.as_deref()) => Err(gone),
                sent = self.sender.send(piece) => sent.map_err(|_| gone),
            }
        })
    }
}

impl io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer.reserve_exact(PIECE_BYTES);
        }
        let length = bytes.len().min(PIECE_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..length]);
        if self.buffer.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.buffer);
        self.send(Ok(piece.into()))
    }
}
