//! Sockets: accepting, TLS, bounds on slow and many clients, and graceful shutdown.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Open connections; more wait to be accepted.
const CONNECTIONS_MAX: usize = 4096;

/// The time for the head of a request, and for a connection to be idle between requests.
const HEADER_PATIENCE: Duration = Duration::from_secs(75);

/// The time for the TLS handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// The pause in accepting when the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;

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
}

impl Server {
    /// Binds an address.
    pub async fn bind(address: &str, tls: Option<Tls>) -> Result<Self, ListenError> {
        let listener = TcpListener::bind(address).await;
        let failed = |error| ListenError::Bind(address.to_owned(), error);
        Ok(Self { listener: listener.map_err(failed)?, tls })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` is ready, then lets requests under way end, for at most `patience`.
    pub async fn run(self, router: Router, stop: impl Future<Output = ()>, patience: Duration) {
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let graceful = GracefulShutdown::new();
        tokio::pin!(stop);
        loop {
            let place = Arc::clone(&connections).acquire_owned();
            let permit = tokio::select! {
                biased;
                () = stop.as_mut() => break,
                Ok(permit) = place => permit,
                else => break,
            };
            tokio::select! {
                biased;
                () = stop.as_mut() => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => self.take(stream, permit, router.clone(), &graceful),
                    Err(error) => {
                        // Out of descriptors, or a client that has disconnected: the next may succeed.
                        tracing::warn!(error = &error as &dyn std::error::Error, "accept failed");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(self.listener);
        // Connections that are still open then are closed.
        let _ = tokio::time::timeout(patience, graceful.shutdown()).await;
    }

    fn take(
        &self,
        stream: TcpStream,
        permit: OwnedSemaphorePermit,
        router: Router,
        graceful: &GracefulShutdown,
    ) {
        // Without this a small response may wait 40 ms for an acknowledgement (Nagle's algorithm).
        let _ = stream.set_nodelay(true);
        let watcher = graceful.watcher();
        let tls = self.tls.clone();
        tokio::spawn(async move {
            let _permit = permit;
            match tls {
                None => serve(stream, router, watcher).await,
                Some(Tls(acceptor)) => {
                    let shaken =
                        tokio::time::timeout(HANDSHAKE_PATIENCE, acceptor.accept(stream)).await;
                    // A client that does not speak TLS gets no response.
                    if let Ok(Ok(stream)) = shaken {
                        serve(stream, router, watcher).await;
                    }
                }
            }
        });
    }
}

async fn serve<Stream>(
    stream: Stream,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
) where
    Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = TowerToHyperService::new(router);
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(HEAD_BYTES_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        // A client may disconnect at any time, which is no fault of the server.
        tracing::debug!(error = &error as &dyn std::error::Error, "connection ended");
    }
}
