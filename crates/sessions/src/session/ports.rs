//! Connections of the host to servers inside a sandbox.
//!
//! Each is made on a socket that belongs to the sandbox's network. A few such sockets are kept ready,
//! since opening them asks the zone. The servers are hostile: what they send is only passed on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use silica_engine::GuestSocket;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use super::Session;
use super::activity::Executing;
use crate::error::SessionError;
use crate::fairness::{Reservation, Resource};
use crate::ports::Exposure;

/// How many sockets are opened at a time.
const STOCK: usize = 8;

/// The most connections to one sandbox.
const CONNECTIONS_MAX: usize = 64;

/// How long a connection waits for another one of its sandbox to end.
const TURN_PATIENCE: Duration = Duration::from_secs(5);

/// How long a server may take to accept. The kernel accepts for it, unless its queue is full.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// The sockets of a session that are not connected yet, and how many connections there may be.
#[derive(Debug)]
pub(super) struct Ports {
    /// `None` once the session has ended: an open socket would keep the network of the sandbox.
    stock: Mutex<Option<Vec<OwnedFd>>>,
    connections: Arc<Semaphore>,
    exposure: std::sync::Mutex<Exposure>,
}

impl Ports {
    pub(super) fn new(exposure: Exposure) -> Self {
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let exposure = std::sync::Mutex::new(exposure);
        Self { stock: Mutex::new(Some(Vec::new())), connections, exposure }
    }

    fn exposure(&self) -> std::sync::MutexGuard<'_, Exposure> {
        // One value, replaced whole.
        self.exposure.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Closes the sockets and opens no further ones.
    pub(super) async fn close(&self) {
        *self.stock.lock().await = None;
        self.connections.close();
    }
}

/// A connection to a server in a sandbox. It counts for its owner until it is dropped.
#[derive(Debug)]
pub struct PortConnection {
    stream: TcpStream,
    _turn: OwnedSemaphorePermit,
    _counted: Reservation,
}

/// Keeps a session active while a server in it works for a client.
#[derive(Debug)]
pub struct PortUse(#[expect(dead_code, reason = "held for its end")] Executing);

impl Session {
    /// Returns which of its ports clients may reach.
    pub fn exposure(&self) -> Exposure {
        self.ports.exposure().clone()
    }

    /// Replaces which of its ports clients may reach. Requests that were let through go on.
    pub fn set_exposure(&self, exposure: Exposure) {
        *self.ports.exposure() = exposure;
    }

    /// Notes that a client exchanges data with a server in it.
    pub fn note_traffic(&self) -> Result<(), SessionError> {
        self.touch()
    }

    /// Makes it active: a server in it works for a client.
    pub fn use_port(self: &Arc<Self>) -> PortUse {
        PortUse(self.execute())
    }

    /// Connects to a server in it.
    pub async fn connect_port(&self, port: u16) -> Result<PortConnection, SessionError> {
        self.touch()?;
        if !self.exposure().contains(port) {
            return Err(SessionError::PortNotExposed(port));
        }
        let turn = Arc::clone(&self.ports.connections).acquire_owned();
        let turn = match tokio::time::timeout(TURN_PATIENCE, turn).await {
            Ok(Ok(turn)) => turn,
            // Closed with the session, which `touch` reports.
            Ok(Err(_)) => return Err(self.touch().err().unwrap_or(SessionError::ShuttingDown)),
            Err(_) => return Err(SessionError::TooManyPortConnections(CONNECTIONS_MAX)),
        };
        let mut counted = self.services.admission.hold(self.tenant(), Resource::Connections);
        counted.grow(1)?;
        let socket = TcpSocket::from_std_stream(self.take_socket().await?.into());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let connecting = tokio::time::timeout(CONNECT_PATIENCE, socket.connect(address));
        let Ok(Ok(stream)) = connecting.await else {
            self.touch()?;
            return Err(SessionError::PortClosed(port));
        };
        // Small pieces of a stream must not wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        Ok(PortConnection { stream, _turn: turn, _counted: counted })
    }

    /// Takes a socket that is ready, or opens some.
    async fn take_socket(&self) -> Result<OwnedFd, SessionError> {
        let mut stock = self.ports.stock.lock().await;
        self.touch()?;
        let Some(ready) = stock.as_mut() else { return Err(SessionError::ShuttingDown) };
        if let Some(socket) = ready.pop() {
            return Ok(socket);
        }
        *ready = self.sandbox.open_sockets(&[GuestSocket::Stream; STOCK], &[]).await?;
        ready.pop().ok_or(SessionError::ShuttingDown)
    }
}

impl AsyncRead for PortConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            // Simple servers write the head of a response and its body by two calls. The second one
            // waits for the acknowledgement of the first, which the kernel delays by 40 ms otherwise;
            // tcp(7). It is only slower if this fails.
            let _ = rustix::net::sockopt::set_tcp_quickack(&self.stream, true);
        }
        read
    }
}

impl AsyncWrite for PortConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
