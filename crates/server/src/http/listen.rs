//! Sockets: accepting, TLS, time limits, and graceful shutdown.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tower::ServiceExt;

use super::connection::{Connection, Connections};
use super::patient::PatientStream;

/// The time for the first head of a request on a connection.
const FIRST_HEADER_PATIENCE: Duration = Duration::from_secs(10);

/// The time for the head of a request, and for a connection to be idle between requests.
const HEADER_PATIENCE: Duration = Duration::from_secs(75);

/// The time for the TLS handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// The pause in accepting when the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The most bytes of a connection that the kernel takes before it can send them. Without a bound it takes megabytes for
/// each client that does not read, and the server renders them: memory and processor time that no budget counts.
const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// The response to a connection for which there is no room.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n\
    Connection: close\r\n\r\n";

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address.
    #[error("cannot listen on {0}")]
    Bind(String, #[source] io::Error),
    /// The certificate or its key.
    #[error("cannot use {0} for TLS: {1}")]
    Tls(String, String),
}

impl ListenError {
    /// Returns what the operator can do about it.
    pub fn advice(&self) -> Option<&'static str> {
        let Self::Bind(_, error) = self else { return None };
        match error.kind() {
            io::ErrorKind::AddrInUse => Some(
                "another program, perhaps another server, listens there; stop it, or choose a port \
                 with --listen 127.0.0.1:PORT",
            ),
            io::ErrorKind::PermissionDenied => {
                Some("ports below 1024 need root; choose another with --listen 127.0.0.1:PORT")
            }
            io::ErrorKind::AddrNotAvailable => {
                Some("the address must be one of this machine; ip address lists them")
            }
            _ => None,
        }
    }
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tls")
    }
}

impl Tls {
    /// Reads both from PEM files.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, ListenError> {
        let wrong = |path: &Path, error: &dyn std::fmt::Display| {
            ListenError::Tls(path.display().to_string(), error.to_string())
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
            .map_err(|error| wrong(certificate, &error))?
            .collect();
        let chain = chain.map_err(|error| wrong(certificate, &error))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| wrong(certificate, &error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

/// A bound socket that accepts no connections yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Option<Tls>,
    connections: Connections,
}

impl Server {
    /// Binds an address for at most `connections_max` connections at a time.
    pub async fn bind(
        address: &str,
        tls: Option<Tls>,
        connections_max: usize,
    ) -> Result<Self, ListenError> {
        let listener = TcpListener::bind(address).await;
        let failed = |error| ListenError::Bind(address.to_owned(), error);
        let connections = Connections::new(connections_max);
        Ok(Self { listener: listener.map_err(failed)?, tls, connections })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` is ready, then lets requests under way end, for at most `patience`.
    pub async fn run(self, router: Router, stop: impl Future<Output = ()>, patience: Duration) {
        // Each connection holds a receiver until it has ended.
        let (stopping, watcher) = watch::channel(());
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.as_mut() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => match self.connections.admit(peer.ip()) {
                    Some(connection) => {
                        self.take(stream, connection, router.clone(), watcher.clone());
                    }
                    None => self.turn_away(stream),
                },
                Err(error) => {
                    // Out of descriptors, or a client that has disconnected: the next may succeed.
                    tracing::warn!(error = &error as &dyn std::error::Error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.listener);
        drop(watcher);
        stopping.send_replace(());
        // Connections that are still open then are closed.
        let _ = tokio::time::timeout(patience, stopping.closed()).await;
    }

    /// Tells a client that there is no room for its connection. One that speaks TLS is only disconnected.
    fn turn_away(&self, mut stream: TcpStream) {
        if self.tls.is_some() {
            return;
        }
        tokio::spawn(async move {
            // Fails only if the client has left.
            let _ = tokio::time::timeout(HANDSHAKE_PATIENCE, stream.write_all(FULL)).await;
        });
    }

    fn take(
        &self,
        stream: TcpStream,
        connection: Arc<Connection>,
        router: Router,
        watcher: watch::Receiver<()>,
    ) {
        // Without this a small response may wait 40 ms for an acknowledgement (Nagle's algorithm).
        let _ = stream.set_nodelay(true);
        // A kernel that does not know the option has only its own bound.
        let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
        let stream = PatientStream::of_connection(stream, &connection);
        let tls = self.tls.clone();
        tokio::spawn(async move {
            match tls {
                None => serve(stream, connection, router, watcher).await,
                Some(Tls(acceptor)) => {
                    let shaken = tokio::select! {
                        shaken = acceptor.accept(stream) => shaken,
                        () = connection.closed() => return,
                        () = tokio::time::sleep(HANDSHAKE_PATIENCE) => return,
                    };
                    // A client that does not speak TLS gets no response.
                    if let Ok(stream) = shaken {
                        serve(stream, connection, router, watcher).await;
                    }
                }
            }
        });
    }
}

async fn serve<Stream>(
    stream: Stream,
    connection: Arc<Connection>,
    router: Router,
    mut watcher: watch::Receiver<()>,
) where
    Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let of_requests = Arc::clone(&connection);
    let service = service_fn(move |request: Request<Incoming>| {
        of_requests.note_request();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Arc::clone(&of_requests));
        router.clone().oneshot(request)
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(HEAD_BYTES_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let silent = stays_silent(&connection);
    tokio::pin!(serving, silent);
    let mut stopping = false;
    let served = loop {
        tokio::select! {
            served = serving.as_mut() => break served,
            () = connection.closed() => return,
            () = silent.as_mut() => return,
            // An error is a server that has gone, and means the same.
            _ = watcher.changed(), if !stopping => {
                stopping = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = served {
        // A client may disconnect at any time, which is no fault of the server.
        tracing::debug!(error = &error as &dyn std::error::Error, "connection ended");
    }
}

/// Is ready if no head of a request arrives in time.
async fn stays_silent(connection: &Connection) {
    tokio::time::sleep(FIRST_HEADER_PATIENCE).await;
    if connection.has_request() {
        std::future::pending::<()>().await;
    }
}
