//! Far sides on loopback: real TLS and HTTP servers, which keep what they were sent.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The authority of the far sides, which the operator's settings name as a root.
pub(crate) struct FarAuthority {
    pub(crate) pem: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl FarAuthority {
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<FarAuthority> = OnceLock::new();
        SHARED.get_or_init(|| {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
            Self { pem: issuer.pem(), issuer }
        })
    }

    pub(crate) fn server(&self, name: &str, protocols: &[&str]) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        // The default name is the authority's too, which OpenSSL takes for a self-signed leaf.
        params.distinguished_name = rcgen::DistinguishedName::new();
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        acceptor(leaf.der().clone(), &key, protocols)
    }

    /// A server whose certificate no one has signed.
    pub(crate) fn self_signed(name: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        acceptor(params.self_signed(&key).unwrap().der().clone(), &key, &["http/1.1"])
    }
}

fn acceptor(leaf: CertificateDer<'static>, key: &KeyPair, protocols: &[&str]) -> TlsAcceptor {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// TLS of a guest that trusts some certificates.
pub(crate) async fn guest_tls(
    stream: TcpStream,
    name: &str,
    roots_pem: &str,
    protocols: &[&str],
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(roots_pem.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Takes an address of loopback that no other test uses, and listens.
pub(crate) async fn listen(port: u16) -> (TcpListener, IpAddr) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = (std::process::id() << 6 | next & 63) & 0x003f_ffff;
        let address = Ipv4Addr::from_bits(Ipv4Addr::new(127, 64, 0, 0).to_bits() + place);
        if let Ok(listener) = TcpListener::bind((address, port)).await {
            return (listener, address.into());
        }
    }
}

/// A far side that keeps what it was sent.
pub(crate) struct Far {
    pub(crate) address: IpAddr,
    /// How many connections came.
    pub(crate) connections: Arc<AtomicU32>,
    /// Each request: its head and its body, as text.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

impl Far {
    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn new(address: IpAddr) -> Self {
        Self { address, connections: Arc::default(), requests: Arc::default() }
    }
}

/// Answers every request by a function of its text.
pub(crate) type Reply = fn(&str) -> Response<Full<Bytes>>;

/// Answers with the request itself.
pub(crate) fn echo(request: &str) -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from(request.to_owned())))
}

/// A plain HTTP server.
pub(crate) async fn http(reply: Reply) -> Far {
    serve(80, None, reply).await
}

/// An HTTPS server with its own choice of protocols.
pub(crate) async fn https(name: &str, protocols: &[&str], reply: Reply) -> Far {
    serve(443, Some(FarAuthority::shared().server(name, protocols)), reply).await
}

pub(crate) async fn serve(port: u16, tls: Option<TlsAcceptor>, reply: Reply) -> Far {
    let (listener, address) = listen(port).await;
    let far = Far::new(address);
    let connections = Arc::clone(&far.connections);
    let requests = Arc::clone(&far.requests);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.fetch_add(1, Ordering::SeqCst);
            let requests = Arc::clone(&requests);
            let tls = tls.clone();
            tokio::spawn(async move {
                match tls {
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                            serve_http(stream, is_http2, requests, reply).await;
                        }
                    }
                    None => serve_http(stream, false, requests, reply).await,
                }
            });
        }
    });
    far
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    is_http2: bool,
    requests: Arc<Mutex<Vec<String>>>,
    reply: Reply,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let requests = Arc::clone(&requests);
        async move {
            let text = as_text(request).await;
            requests.lock().unwrap().push(text.clone());
            Ok::<_, Infallible>(reply(&text))
        }
    });
    let io = TokioIo::new(stream);
    if is_http2 {
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = builder.serve_connection(io, service).await;
    } else {
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
    }
}

async fn as_text(request: Request<Incoming>) -> String {
    let (parts, body) = request.into_parts();
    let mut text = format!("{} {} {:?}\n", parts.method, parts.uri, parts.version);
    for (name, value) in &parts.headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        text = format!("{text}{name}: {value}\n");
    }
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    format!("{text}\n{}", String::from_utf8_lossy(&body))
}

/// A server of raw bytes that sends back what it gets, behind a greeting.
pub(crate) async fn raw(port: u16, greeting: &'static [u8]) -> Far {
    let (listener, address) = listen(port).await;
    let far = Far::new(address);
    let connections = Arc::clone(&far.connections);
    let requests = Arc::clone(&far.requests);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            connections.fetch_add(1, Ordering::SeqCst);
            let requests = Arc::clone(&requests);
            tokio::spawn(async move {
                let _ = stream.write_all(greeting).await;
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(length) = stream.read(&mut buffer).await {
                    if length == 0 {
                        break;
                    }
                    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                    requests.lock().unwrap().push(text);
                    if stream.write_all(&buffer[..length]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    far
}

/// Where a far side on a port of its own is.
pub(crate) fn at(far: &Far, port: u16) -> SocketAddr {
    SocketAddr::new(far.address, port)
}
