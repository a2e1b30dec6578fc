//! Connections that are allowed, from the guest to the far side.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use silica_domain::{Cidr, Grant, NetworkHost, NetworkVerdict, RuleProtocol};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::ask::{self, Leave};
use super::budget::ConnectionPlace;
use super::connection::{OpenConnection, Opening};
use super::hello::HelloReader;
use super::intercept::{self, Intercepted};
use super::refusal::Refusal;
use super::sandbox::Sandbox;
use super::world::lock;
use super::{dial, http, tunnel};
use crate::events::ConnectionKind;

/// How long a hello may take.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);

/// Serves a connection to an address that stands for a name or is in an allowed range.
pub(super) async fn transparent(
    sandbox: Arc<Sandbox>,
    stream: TcpStream,
    port: u16,
    _place: ConnectionPlace,
) {
    let Some(host) = host_of(&sandbox, &stream, port) else {
        return tunnel::reset(stream);
    };
    // Plain HTTP is judged request by request, so that a refusal can be said in HTTP.
    let closing = Arc::new(Notify::new());
    let closed = Arc::clone(&closing);
    let served = async {
        match decide_transparent(&sandbox, &host, port).await {
            Ok(Way::Http) => http::serve_plain(&sandbox, stream, host, port, closing).await,
            Ok(Way::Leave(leave)) => {
                let request = Request { host, port, closing };
                carry(&sandbox, stream, request, leave, Vec::new()).await;
            }
            Err(refusal) => {
                sandbox.deny(&host.to_string(), port, ConnectionKind::Tcp, &refusal);
                tunnel::reset(stream);
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = closed.notified() => {}
    }
}

enum Way {
    Http,
    Leave(Leave),
}

async fn decide_transparent(
    sandbox: &Arc<Sandbox>,
    host: &NetworkHost,
    port: u16,
) -> Result<Way, Refusal> {
    let verdict = sandbox.policy().decide_connection(host, port);
    match verdict {
        NetworkVerdict::Allowed(grant) if grant.protocol == RuleProtocol::Http => Ok(Way::Http),
        NetworkVerdict::Allowed(grant) => Ok(Way::Leave(Leave { grant, once: false })),
        NetworkVerdict::Ask | NetworkVerdict::Denied(_) if port == 80 => Ok(Way::Http),
        NetworkVerdict::Ask => ask::decide(sandbox, host, port, None).await.map(Way::Leave),
        NetworkVerdict::Denied(denial) => Err(denial.into()),
    }
}

/// Returns what the guest connected to, by the address it used.
fn host_of(sandbox: &Sandbox, stream: &TcpStream, port: u16) -> Option<NetworkHost> {
    let IpAddr::V4(address) = stream.local_addr().ok()?.ip() else {
        return None;
    };
    if let Some(name) = lock(&sandbox.names).name(address) {
        return Some(NetworkHost::Name(name.clone()));
    }
    let in_range = |(range, _): &(Cidr, Vec<u16>)| range.contains(address.into());
    if sandbox.policy().ranges().iter().any(in_range) {
        return Some(NetworkHost::Address(address.into()));
    }
    let refusal = Refusal::forbidden("unknown_address", "no name has this address");
    sandbox.deny(&address.to_string(), port, ConnectionKind::Tcp, &refusal);
    None
}

/// What a guest wants to connect to.
pub(super) struct Request {
    pub(super) host: NetworkHost,
    pub(super) port: u16,
    /// Ends the guest's connection.
    pub(super) closing: Arc<Notify>,
}

/// Carries a connection that is allowed, by the protocol of its rule. `first` was read already.
pub(super) async fn carry(
    sandbox: &Arc<Sandbox>,
    stream: TcpStream,
    request: Request,
    leave: Leave,
    first: Vec<u8>,
) {
    let kind = match leave.grant.protocol {
        RuleProtocol::Tls if leave.grant.intercept => ConnectionKind::Intercept,
        RuleProtocol::Tls => ConnectionKind::Pass,
        RuleProtocol::Http => ConnectionKind::Http,
        RuleProtocol::Tcp => ConnectionKind::Tcp,
    };
    let Request { host, port, closing } = request;
    let opening = Opening { host: host.clone(), port, kind, closing: Arc::clone(&closing) };
    let open = Arc::new(OpenConnection::new(sandbox, opening, &leave.grant));
    let once = &open.connection().once;
    once.store(leave.once, std::sync::atomic::Ordering::Relaxed);
    let carried = match kind {
        ConnectionKind::Intercept | ConnectionKind::Pass => {
            let tls = Tls { grant: leave.grant, closing, first };
            carry_tls(sandbox, stream, &open, tls).await
        }
        _ => connect_and_join(sandbox, stream, &open, &first).await,
    };
    if let Err((stream, refusal)) = carried {
        open.connection().note(&refusal);
        if refusal.by_rule {
            sandbox.deny(&host.to_string(), port, kind, &refusal);
        }
        if let Some(stream) = stream {
            tunnel::reset(stream);
        }
    }
}

/// A refusal, with the guest's connection if it is still there to be reset.
type Failed = (Option<TcpStream>, Refusal);

/// A TLS connection that is allowed.
struct Tls {
    grant: Grant,
    closing: Arc<Notify>,
    first: Vec<u8>,
}

async fn carry_tls(
    sandbox: &Arc<Sandbox>,
    stream: TcpStream,
    open: &Arc<OpenConnection>,
    tls: Tls,
) -> Result<(), Failed> {
    let (hello, bytes) = match timeout(HELLO_PATIENCE, read_hello(&stream, &tls.first)).await {
        Ok(Ok(read)) => read,
        Ok(Err(why)) => return Err((Some(stream), Refusal::forbidden("not_tls", why))),
        Err(_) => {
            let refusal = Refusal::forbidden("not_tls", "the hello took longer than 5 s");
            return Err((Some(stream), refusal));
        }
    };
    let connection = open.connection();
    if let NetworkHost::Name(name) = &connection.host {
        let said = hello.as_deref().map(str::to_ascii_lowercase);
        if said.as_deref() != Some(name.as_str()) {
            let why = match hello {
                Some(_) => "the hello names another host",
                None => "the hello names no host",
            };
            return Err((Some(stream), Refusal::forbidden("hello_differs", why)));
        }
        if tls.grant.intercept {
            let intercepted = Intercepted { name, closing: tls.closing };
            let served = intercept::serve(sandbox, stream, open, intercepted, bytes);
            return served.await.map_err(|refusal| (None, refusal));
        }
    }
    connect_and_join(sandbox, stream, open, &bytes).await
}

async fn connect_and_join(
    sandbox: &Arc<Sandbox>,
    stream: TcpStream,
    open: &OpenConnection,
    first: &[u8],
) -> Result<(), Failed> {
    let connection = open.connection();
    match dial::dial(sandbox, &connection.host, connection.port).await {
        Ok((far, address)) => {
            connection.dialled(address);
            // How a connection ends is either side's business.
            let _ = tunnel::join(open, stream, far, first).await;
            Ok(())
        }
        Err(refusal) => Err((Some(stream), refusal)),
    }
}

/// Reads until the hello is whole. Returns the name in it and all bytes read.
async fn read_hello(
    stream: &TcpStream,
    first: &[u8],
) -> Result<(Option<String>, Vec<u8>), &'static str> {
    let mut reader = HelloReader::default();
    let mut buffer = vec![0; 4096];
    let mut hello = reader.push(first).map_err(|not| not.0)?;
    loop {
        if let Some(hello) = hello {
            return Ok((hello.server_name, reader.into_bytes()));
        }
        stream.readable().await.map_err(|_| "the connection ended")?;
        let length = match stream.try_read(&mut buffer) {
            Ok(0) => return Err("the connection ended before its hello did"),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => return Err("the connection ended before its hello did"),
        };
        hello = reader.push(&buffer[..length]).map_err(|not| not.0)?;
    }
}
