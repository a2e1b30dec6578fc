//! HTTP connections to the far side: TLS that is verified, HTTP/1.1 or HTTP/2.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use silica_domain::NetworkHost;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::budget::Direction;
use super::connection::OpenConnection;
use super::dial;
use super::http::{ProxyBody, SandboxExecutor};
use super::refusal::Refusal;
use super::sandbox::Sandbox;

/// How long a handshake may take.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// The longest head of an answer, and the most fields in it.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEAD_FIELDS_MAX: usize = 100;

/// What verifies the far side.
pub(super) struct UpstreamTls {
    extra: Vec<CertificateDer<'static>>,
    configs: OnceLock<Result<Configs, String>>,
}

struct Configs {
    any: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
}

/// The versions of HTTP that are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    Any,
    /// An upgrade needs it.
    Http1,
}

impl UpstreamTls {
    pub(super) fn new(extra_roots_pem: &str) -> Result<Self, String> {
        let extra = CertificateDer::pem_slice_iter(extra_roots_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("the extra roots are not PEM: {error}"))?;
        Ok(Self { extra, configs: OnceLock::new() })
    }

    /// Returns the configuration; the roots are read when the first connection needs them.
    fn config(&self, offer: Offer) -> Result<Arc<ClientConfig>, Refusal> {
        let configs = self.configs.get_or_init(|| Configs::new(&self.extra));
        match (configs, offer) {
            (Ok(configs), Offer::Any) => Ok(Arc::clone(&configs.any)),
            (Ok(configs), Offer::Http1) => Ok(Arc::clone(&configs.http1)),
            (Err(error), _) => Err(Refusal::upstream("tls_failed", error.clone())),
        }
    }
}

impl Configs {
    fn new(extra: &[CertificateDer<'static>]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().cloned());
        for certificate in extra {
            let added = roots.add(certificate.clone());
            added.map_err(|error| format!("an extra root cannot be used: {error}"))?;
        }
        let config = |protocols: &[&[u8]]| {
            let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .with_root_certificates(roots.clone())
                .with_no_client_auth();
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Ok::<_, String>(Arc::new(config))
        };
        Ok(Self { any: config(&[b"h2", b"http/1.1"])?, http1: config(&[b"http/1.1"])? })
    }
}

/// Sends requests on one connection.
pub(super) enum Sender {
    Http1(http1::SendRequest<ProxyBody>),
    Http2(http2::SendRequest<ProxyBody>),
}

/// What is left of a request that could not be sent.
pub(super) struct NotSent {
    /// The request, if nothing of it was sent.
    pub(super) request: Option<Request<ProxyBody>>,
    pub(super) error: hyper::Error,
}

impl Sender {
    pub(super) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    pub(super) fn is_usable(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_ready(),
            Self::Http2(sender) => sender.is_ready() && !sender.is_closed(),
        }
    }

    pub(super) async fn send(
        &mut self,
        request: Request<ProxyBody>,
    ) -> Result<Response<Incoming>, NotSent> {
        let sent = match self {
            Self::Http1(sender) => sender.try_send_request(request).await,
            Self::Http2(sender) => sender.try_send_request(request).await,
        };
        sent.map_err(|mut error| NotSent {
            request: error.take_message(),
            error: error.into_error(),
        })
    }

    /// Returns a second sender of the same connection, if it takes several requests at once.
    pub(super) fn share(&self) -> Option<Self> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(sender) => Some(Self::Http2(sender.clone())),
        }
    }
}

/// Opens a connection to the host of a guest's connection.
pub(super) async fn open(
    sandbox: &Arc<Sandbox>,
    open: &Arc<OpenConnection>,
    secure: bool,
    offer: Offer,
) -> Result<Sender, Refusal> {
    let connection = open.connection();
    let (stream, address) = dial::dial(sandbox, &connection.host, connection.port).await?;
    connection.dialled(address);
    let stream = Metered::new(stream, Arc::clone(open));
    if !secure {
        return http1_over(sandbox, stream).await;
    }
    let NetworkHost::Name(name) = &connection.host else {
        return Err(Refusal::upstream("tls_failed", "an address has no certificate"));
    };
    let server = ServerName::try_from(name.as_str().to_owned())
        .map_err(|_| Refusal::upstream("tls_failed", "the name cannot be in a certificate"))?;
    let connector = TlsConnector::from(sandbox.world.tls.config(offer)?);
    let stream = timeout(HANDSHAKE_PATIENCE, connector.connect(server, stream))
        .await
        .map_err(|_| Refusal::upstream("tls_failed", "the handshake took too long"))?
        .map_err(|error| {
            Refusal::upstream("tls_failed", format!("{name} is not verified: {error}"))
        })?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2_over(sandbox, stream).await
    } else {
        http1_over(sandbox, stream).await
    }
}

fn failed(error: &hyper::Error) -> Refusal {
    Refusal::upstream("http_failed", format!("the far side does not speak HTTP: {error}"))
}

async fn http1_over(
    sandbox: &Arc<Sandbox>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<Sender, Refusal> {
    let (sender, driver) = http1::Builder::new()
        .max_headers(HEAD_FIELDS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(&error))?;
    // Ends when the sender and the bodies are dropped, and so with the guest's connection. How it
    // ends is said by the request.
    sandbox.spawn(async move { drop(driver.with_upgrades().await) });
    Ok(Sender::Http1(sender))
}

async fn http2_over(
    sandbox: &Arc<Sandbox>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<Sender, Refusal> {
    let (sender, driver) = http2::Builder::new(SandboxExecutor(Arc::clone(sandbox)))
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(&error))?;
    sandbox.spawn(async move { drop(driver.await) });
    Ok(Sender::Http2(sender))
}

/// A connection to the far side whose bytes count.
struct Metered {
    stream: TcpStream,
    open: Arc<OpenConnection>,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Metered {
    fn new(stream: TcpStream, open: Arc<OpenConnection>) -> Self {
        Self { stream, open, wait: None }
    }

    fn spend(&mut self, direction: Direction, count: usize) -> io::Result<()> {
        let wait = self.open.spend(direction, count);
        let wait = wait.map_err(|refusal| io::Error::other(refusal.code))?;
        if !wait.is_zero() {
            self.wait = Some(Box::pin(tokio::time::sleep(wait)));
        }
        Ok(())
    }

    fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
            self.wait = None;
        }
        Poll::Ready(())
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_wait(context));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let count = buffer.filled().len() - before;
        Poll::Ready(self.spend(Direction::Down, count))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_wait(context));
        let count = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.spend(Direction::Up, count)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
