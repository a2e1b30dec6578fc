//! HTTP of guests, plain or from inside TLS: every request is judged by itself.
//!
//! Heads are parsed and built anew, so that nothing of a guest's framing reaches the far side. The
//! host of a request must equal the name that the guest connected to.

mod body;
mod headers;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use silica_domain::{NetworkHost, RuleProtocol};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, Semaphore};

use super::ask::{self, Leave, RequestLine};
use super::connection::{OpenConnection, Opening};
use super::refusal::Refusal;
use super::sandbox::Sandbox;
use super::tunnel;
use super::upstream::{self, Offer, Sender};
use super::world::lock;
use crate::events::{ConnectionKind, RequestRecord};
use headers::Upgrade;

/// The error of a body: whatever ended it.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request to the far side or of a response to the guest.
pub(super) type ProxyBody = UnsyncBoxBody<Bytes, BodyError>;

/// The longest head of a request, the most fields in it, and how long it may take.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
pub(super) const HEAD_FIELDS_MAX: usize = 100;
pub(super) const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// The most streams of an HTTP/2 connection, and the most resets before it is closed.
const STREAMS_MAX: u32 = 100;
const RESETS_MAX: usize = 1000;

/// The most connections to the far side for one of a guest.
const UPSTREAMS_MAX: usize = 8;

/// The most hosts that a guest reaches by one connection to the proxy.
const TARGETS_MAX: usize = 32;

/// A guest's connection that carries requests.
pub(super) struct HttpConnection {
    sandbox: Arc<Sandbox>,
    /// Whether the requests came from inside TLS.
    secure: bool,
    /// The host that every request must name; none for the proxy.
    fixed: Option<(NetworkHost, u16)>,
    closing: Arc<Notify>,
    targets: Mutex<HashMap<(NetworkHost, u16), Arc<Target>>>,
    /// A WebSocket that the connection has become.
    switched: Mutex<Option<Switched>>,
}

/// Both sides of a WebSocket.
struct Switched {
    open: Arc<OpenConnection>,
    guest: hyper::upgrade::OnUpgrade,
    far: hyper::upgrade::OnUpgrade,
}

/// A host of a guest's connection.
struct Target {
    open: Arc<OpenConnection>,
    idle: Mutex<Vec<Sender>>,
    slots: Semaphore,
    /// Whether a connection to the far side was opened.
    dialled: AtomicBool,
}

impl HttpConnection {
    /// A connection to the proxy.
    pub(super) fn proxy(sandbox: &Arc<Sandbox>, closing: Arc<Notify>) -> Self {
        Self {
            sandbox: Arc::clone(sandbox),
            secure: false,
            fixed: None,
            closing,
            targets: Mutex::default(),
            switched: Mutex::default(),
        }
    }

    /// TLS that was ended here, to one host.
    pub(super) fn intercepted(
        sandbox: &Arc<Sandbox>,
        open: &Arc<OpenConnection>,
        closing: Arc<Notify>,
    ) -> Self {
        let connection = open.connection();
        let fixed = (connection.host.clone(), connection.port);
        let target = Target::new(Arc::clone(open));
        let targets = HashMap::from([(fixed.clone(), Arc::new(target))]);
        Self {
            sandbox: Arc::clone(sandbox),
            secure: true,
            fixed: Some(fixed),
            closing,
            targets: Mutex::new(targets),
            switched: Mutex::default(),
        }
    }
}

impl Target {
    fn new(open: Arc<OpenConnection>) -> Self {
        Self {
            open,
            idle: Mutex::default(),
            slots: Semaphore::new(UPSTREAMS_MAX),
            dialled: AtomicBool::new(false),
        }
    }
}

/// Serves plain HTTP to one host.
pub(super) async fn serve_plain(
    sandbox: &Arc<Sandbox>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    host: NetworkHost,
    port: u16,
    closing: Arc<Notify>,
) {
    let context = HttpConnection {
        sandbox: Arc::clone(sandbox),
        secure: false,
        fixed: Some((host, port)),
        closing,
        targets: Mutex::default(),
        switched: Mutex::default(),
    };
    serve_http1(Arc::new(context), stream).await;
}

/// Returns the settings of every HTTP/1.1 connection of a guest.
pub(super) fn http1_settings() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_headers(HEAD_FIELDS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .auto_date_header(false);
    builder
}

pub(super) async fn serve_http1(
    context: Arc<HttpConnection>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    let handler = Arc::clone(&context);
    let service = service_fn(move |request| handle(Arc::clone(&handler), request));
    let served = http1_settings().serve_connection(TokioIo::new(stream), service).with_upgrades();
    // What a guest sends that is no HTTP was answered with 400.
    drop(served.await);
    context.carry_switched().await;
}

pub(super) async fn serve_http2(
    context: Arc<HttpConnection>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) {
    let executor = SandboxExecutor(Arc::clone(&context.sandbox));
    let service = service_fn(move |request| handle(Arc::clone(&context), request));
    let served = http2::Builder::new(executor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service);
    // A guest that breaks the protocol has been sent GOAWAY.
    drop(served.await);
}

/// Answers one request, with a refusal if need be.
pub(super) async fn handle(
    context: Arc<HttpConnection>,
    request: Request<Incoming>,
) -> Result<Response<ProxyBody>, Infallible> {
    let method = request.method().to_string();
    let path = request.uri().path().to_owned();
    let named = context.address(&request);
    let subject = match &named {
        Ok((host, port)) => (host.to_string(), *port),
        Err(_) => headers::said_host(&request),
    };
    let forwarded = match named {
        Ok((host, port)) => context.forward(request, host, port).await,
        Err(refusal) => Err(refusal),
    };
    Ok(forwarded.unwrap_or_else(|refusal| {
        context.refused(
            &subject,
            RequestRecord { method, path, status: refusal.status.as_u16(), secrets: Vec::new() },
            &refusal,
        );
        refusal.response()
    }))
}

impl HttpConnection {
    fn refused(&self, subject: &(String, u16), record: RequestRecord, refusal: &Refusal) {
        let kind = if self.secure { ConnectionKind::Intercept } else { ConnectionKind::Http };
        if refusal.by_rule {
            self.sandbox.deny(&subject.0, subject.1, kind, refusal);
        }
        let targets = lock(&self.targets);
        let target = targets
            .iter()
            .find(|((host, port), _)| *port == subject.1 && host.to_string() == subject.0);
        if let Some((_, target)) = target {
            target.open.connection().add_request(record);
        }
    }

    /// Returns the host that a request is for, which must be the one connected to.
    fn address(&self, request: &Request<Incoming>) -> Result<(NetworkHost, u16), Refusal> {
        match &self.fixed {
            Some((host, port)) => {
                headers::check_host(request, host, *port, self.secure)?;
                Ok((host.clone(), *port))
            }
            None => headers::proxied_host(request),
        }
    }

    async fn forward(
        &self,
        mut request: Request<Incoming>,
        host: NetworkHost,
        port: u16,
    ) -> Result<Response<ProxyBody>, Refusal> {
        if matches!(*request.method(), Method::TRACE | Method::CONNECT) {
            return Err(Refusal::method(format!("{} is not passed on", request.method())));
        }
        let leave = self.decide(&request, &host, port).await?;
        let expected = if self.secure { RuleProtocol::Tls } else { RuleProtocol::Http };
        // Any bytes may be HTTP.
        if ![expected, RuleProtocol::Tcp].contains(&leave.grant.protocol) {
            let why = format!("the rule for {host}:{port} is for {}", leave.grant.protocol.name());
            return Err(Refusal::forbidden("protocol_not_allowed", why));
        }
        let upgrade = headers::upgrade(&request);
        if upgrade == Upgrade::WebSocket && !leave.grant.websocket {
            let why = "the rule for this host does not allow `websocket`";
            return Err(Refusal::forbidden("websocket_not_allowed", why));
        }
        let guest_side = (upgrade == Upgrade::WebSocket).then(|| hyper::upgrade::on(&mut request));
        let target = self.target(&host, port, &leave)?;
        let prepared = body::prepare(self, request, &leave.grant, &host, port, upgrade).await?;
        let record = prepared.record.clone();
        let answered = self.exchange(&target, prepared, upgrade, guest_side).await;
        let connection = target.open.connection();
        if let Ok(response) = &answered {
            let status = response.status().as_u16();
            connection.add_request(RequestRecord { status, ..record });
        }
        answered
    }

    async fn decide(
        &self,
        request: &Request<Incoming>,
        host: &NetworkHost,
        port: u16,
    ) -> Result<Leave, Refusal> {
        let known = lock(&self.targets).get(&(host.clone(), port)).cloned();
        let line = RequestLine { method: request.method().as_str(), path: request.uri().path() };
        // A connection that a person allowed once keeps that leave, within what is forbidden.
        if let Some(target) = known
            && target.open.connection().once.load(Ordering::Relaxed)
            && let NetworkHost::Name(name) = host
        {
            return ask::once(&self.sandbox, name, port, Some(line));
        }
        ask::decide(&self.sandbox, host, port, Some(line)).await
    }

    /// Returns the record and the connections of a host.
    fn target(&self, host: &NetworkHost, port: u16, leave: &Leave) -> Result<Arc<Target>, Refusal> {
        let mut targets = lock(&self.targets);
        let key = (host.clone(), port);
        if let Some(target) = targets.get(&key) {
            return Ok(Arc::clone(target));
        }
        if targets.len() >= TARGETS_MAX {
            return Err(Refusal::limit("hosts of one connection"));
        }
        let opening = Opening {
            host: host.clone(),
            port,
            kind: ConnectionKind::Http,
            closing: Arc::clone(&self.closing),
        };
        let open = Arc::new(OpenConnection::new(&self.sandbox, opening, &leave.grant));
        open.connection().once.store(leave.once, Ordering::Relaxed);
        let target = Arc::new(Target::new(open));
        targets.insert(key, Arc::clone(&target));
        Ok(target)
    }

    /// Sends a request to the far side and makes its answer fit for the guest.
    async fn exchange(
        &self,
        target: &Arc<Target>,
        prepared: body::Prepared,
        upgrade: Upgrade,
        guest_side: Option<hyper::upgrade::OnUpgrade>,
    ) -> Result<Response<ProxyBody>, Refusal> {
        let _slot = target.slots.acquire().await;
        let offer = if upgrade == Upgrade::WebSocket { Offer::Http1 } else { Offer::Any };
        let mut kept = take_idle(target, offer);
        let mut request = prepared.request;
        let (mut response, sender) = loop {
            let was_kept = kept.is_some();
            let mut sender = match kept.take() {
                Some(sender) => sender,
                None => self.dial(target, offer).await?,
            };
            headers::shape(&mut request, &sender, &target.open, self.secure)?;
            match sender.send(request).await {
                Ok(response) => break (response, sender),
                // A kept connection may have been closed by the far side meanwhile.
                Err(not_sent) => match not_sent.request {
                    Some(unsent) if was_kept => request = unsent,
                    _ => return Err(prepared.watch.refusal(&not_sent.error)),
                },
            }
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.switch(target, response, guest_side);
        }
        give_back(target, sender);
        headers::clean_answer(response.headers_mut());
        body::finish(response, prepared.needles, prepared.tokens)
    }
}

impl HttpConnection {
    async fn dial(&self, target: &Target, offer: Offer) -> Result<Sender, Refusal> {
        if target.dialled.swap(true, Ordering::Relaxed) {
            let taken = self.sandbox.budgets.take_dial();
            taken.map_err(|used_up| Refusal::limit(used_up.0))?;
        }
        upstream::open(&self.sandbox, &target.open, self.secure, offer).await
    }

    /// Keeps both sides of a WebSocket until the answer has been sent to the guest.
    fn switch(
        &self,
        target: &Arc<Target>,
        mut response: Response<Incoming>,
        guest_side: Option<hyper::upgrade::OnUpgrade>,
    ) -> Result<Response<ProxyBody>, Refusal> {
        let Some(guest) = guest_side else {
            let why = "the far side switched protocols without a request to";
            return Err(Refusal::upstream("http_failed", why));
        };
        let far = hyper::upgrade::on(&mut response);
        let open = Arc::clone(&target.open);
        *lock(&self.switched) = Some(Switched { open, guest, far });
        let (parts, _) = response.into_parts();
        Ok(Response::from_parts(parts, body::empty()))
    }

    /// Carries the WebSocket that the connection has become, if it has.
    pub(super) async fn carry_switched(&self) {
        let Some(switched) = lock(&self.switched).take() else {
            return;
        };
        if let (Ok(guest), Ok(far)) = tokio::join!(switched.guest, switched.far) {
            let (guest, far) = (TokioIo::new(guest), TokioIo::new(far));
            // How it ends is either side's business.
            let _ = tunnel::join_streams(switched.open, guest, far).await;
        }
    }
}

/// Runs the tasks of an HTTP/2 connection until the sandbox ends.
#[derive(Clone)]
pub(super) struct SandboxExecutor(pub(super) Arc<Sandbox>);

impl<F> hyper::rt::Executor<F> for SandboxExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, task: F) {
        self.0.spawn(async move { drop(task.await) });
    }
}

fn take_idle(target: &Target, offer: Offer) -> Option<Sender> {
    if offer == Offer::Http1 {
        return None;
    }
    let mut idle = lock(&target.idle);
    idle.retain(Sender::is_usable);
    match idle.last().and_then(Sender::share) {
        Some(shared) => Some(shared),
        None => idle.pop(),
    }
}

/// Keeps a connection for the next request. An HTTP/1.1 one is usable when its answer was read.
fn give_back(target: &Target, sender: Sender) {
    let mut idle = lock(&target.idle);
    if sender.is_http2() && idle.iter().any(Sender::is_http2) {
        return;
    }
    if idle.len() < UPSTREAMS_MAX {
        idle.push(sender);
    }
}

/// Returns a body without bytes.
pub(super) fn empty_body() -> ProxyBody {
    body::empty()
}

/// Tells whether a version of HTTP is served.
fn is_served(version: Version) -> bool {
    version == Version::HTTP_11 || version == Version::HTTP_2
}
