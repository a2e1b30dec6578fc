//! The proxy at port 3128 of a sandbox: requests with a whole `http` URL, and CONNECT.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use hyper::body::Incoming;
use hyper::http::uri::Authority;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use silica_domain::{NetworkHost, RuleProtocol};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::ask::{self, Leave};
use super::budget::ConnectionPlace;
use super::carry;
use super::dial;
use super::http::{self, HttpConnection, ProxyBody};
use super::intercept::Prefixed;
use super::refusal::Refusal;
use super::sandbox::Sandbox;
use super::world::lock;
use crate::events::ConnectionKind;

/// A CONNECT that was answered with 200.
struct Tunnel {
    host: NetworkHost,
    port: u16,
    leave: Leave,
    upgrade: hyper::upgrade::OnUpgrade,
}

type TunnelPlace = Arc<Mutex<Option<Tunnel>>>;

/// Serves one connection to the proxy.
pub(super) async fn serve(sandbox: Arc<Sandbox>, stream: TcpStream, _place: ConnectionPlace) {
    let closing = Arc::new(Notify::new());
    let closed = Arc::clone(&closing);
    let served = async {
        let context = Arc::new(HttpConnection::proxy(&sandbox, Arc::clone(&closing)));
        let switched = Arc::clone(&context);
        let tunnel = TunnelPlace::default();
        let service = {
            let sandbox = Arc::clone(&sandbox);
            let tunnel = Arc::clone(&tunnel);
            service_fn(move |request| {
                handle(Arc::clone(&sandbox), Arc::clone(&context), Arc::clone(&tunnel), request)
            })
        };
        let connection = http::http1_settings().serve_connection(TokioIo::new(stream), service);
        // What is no HTTP was answered with 400.
        drop(connection.with_upgrades().await);
        switched.carry_switched().await;
        let tunnel = lock(&tunnel).take();
        if let Some(tunnel) = tunnel {
            carry_tunnel(&sandbox, tunnel, closing).await;
        }
    };
    tokio::select! {
        () = served => {}
        () = closed.notified() => {}
    }
}

async fn handle(
    sandbox: Arc<Sandbox>,
    context: Arc<HttpConnection>,
    tunnel: TunnelPlace,
    mut request: Request<Incoming>,
) -> Result<Response<ProxyBody>, Infallible> {
    if request.method() != Method::CONNECT {
        return http::handle(context, request).await;
    }
    let said = request.uri().authority().map(Authority::as_str).unwrap_or_default().to_owned();
    match allow_tunnel(&sandbox, &said).await {
        Ok((host, port, leave)) => {
            let upgrade = hyper::upgrade::on(&mut request);
            *lock(&tunnel) = Some(Tunnel { host, port, leave, upgrade });
            Ok(Response::new(http::empty_body()))
        }
        Err((port, refusal)) => {
            if refusal.by_rule {
                let host = said.rsplit_once(':').map_or(said.as_str(), |(host, _)| host);
                sandbox.deny(host, port, ConnectionKind::Proxy, &refusal);
            }
            Ok(refusal.response())
        }
    }
}

/// Decides on a CONNECT, and looks the name up, so that a refusal can be said in HTTP.
async fn allow_tunnel(
    sandbox: &Arc<Sandbox>,
    said: &str,
) -> Result<(NetworkHost, u16, Leave), (u16, Refusal)> {
    let (host, port) = authority(said, None).map_err(|refusal| (0, refusal))?;
    let refused = |refusal| (port, refusal);
    let leave = ask::decide(sandbox, &host, port, None).await.map_err(refused)?;
    dial::check(sandbox, &host, port).await.map_err(refused)?;
    Ok((host, port, leave))
}

async fn carry_tunnel(sandbox: &Arc<Sandbox>, tunnel: Tunnel, closing: Arc<Notify>) {
    let Tunnel { host, port, leave, upgrade } = tunnel;
    let Ok(upgraded) = upgrade.await else {
        return;
    };
    let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>() else {
        return;
    };
    let stream = parts.io.into_inner();
    let first = parts.read_buf.to_vec();
    if leave.grant.protocol == RuleProtocol::Http {
        let stream = Prefixed::new(stream, first);
        http::serve_plain(sandbox, stream, host, port, closing).await;
    } else {
        let request = carry::Request { host, port, closing };
        carry::carry(sandbox, stream, request, leave, first).await;
    }
}

/// Reads `host:port` as a guest wrote it, in exactly one form.
///
/// What is no host at all is a bad request. What looks like one, such as a name with a dot at its
/// end or a number, is a host that no rule names.
pub(crate) fn authority(
    text: &str,
    default_port: Option<u16>,
) -> Result<(NetworkHost, u16), Refusal> {
    let bad = || Refusal::bad_request("the target must be `host:port`");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(bad)?;
            let port =
                if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(bad)?) };
            (host, port)
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map_err(|_| bad())?
        }
        Some(_) => return Err(bad()),
        None => default_port.ok_or_else(bad)?,
    };
    if port == 0 {
        return Err(bad());
    }
    let host = match host.parse::<NetworkHost>() {
        Ok(host) => host,
        Err(error) => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
            let looks_like_host = !host.is_empty() && host.bytes().all(plain);
            return Err(if looks_like_host {
                Refusal::forbidden("host_not_allowed", error.to_string())
            } else {
                bad()
            });
        }
    };
    let bracketed = text.starts_with('[');
    if bracketed != matches!(&host, NetworkHost::Address(address) if address.is_ipv6()) {
        return Err(bad());
    }
    Ok((host, port))
}
