//! Hosts and headers of requests and answers.

#[cfg(test)]
mod tests;

use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING,
    UPGRADE,
};
use hyper::http::uri::{Authority, Scheme};
use hyper::{Request, Uri};
use silica_domain::NetworkHost;

use super::ProxyBody;
use crate::process::connection::OpenConnection;
use crate::process::proxy;
use crate::process::refusal::Refusal;
use crate::process::upstream::Sender;

/// What a request wants to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upgrade {
    WebSocket,
    /// Nothing, or something that is not passed on.
    None,
}

/// Headers between two neighbours (RFC 9110, 7.6.1), never passed on.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Checks that a request is for one host, by every part of it that could name another.
pub(super) fn check_host<B>(
    request: &Request<B>,
    host: &NetworkHost,
    port: u16,
    secure: bool,
) -> Result<(), Refusal> {
    if !super::is_served(request.version()) {
        return Err(Refusal::bad_request("HTTP/1.1 or HTTP/2 is needed"));
    }
    let header = single_host(request.headers())?;
    let authority = request.uri().authority().map(Authority::as_str);
    if header.is_none() && authority.is_none() {
        return Err(Refusal::bad_request("the request names no host"));
    }
    if let (Some(header), Some(authority)) = (header, authority)
        && !header.eq_ignore_ascii_case(authority)
    {
        return Err(Refusal::bad_request("the request names two hosts"));
    }
    let scheme = if secure { &Scheme::HTTPS } else { &Scheme::HTTP };
    if request.uri().scheme().is_some_and(|said| said != scheme) {
        return Err(Refusal::misdirected("the request is for another scheme"));
    }
    for said in [header, authority].into_iter().flatten() {
        if !is_same(said, host, port, secure) {
            let why = format!("the connection is to {host}:{port} and the request to another");
            return Err(Refusal::misdirected(why));
        }
    }
    Ok(())
}

/// Returns the one `Host` of a request.
fn single_host(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let first = hosts.next();
    if hosts.next().is_some() {
        return Err(Refusal::bad_request("the request has two `Host` headers"));
    }
    match first.map(HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(host)) => Ok(Some(host)),
        Some(Err(_)) => Err(Refusal::bad_request("the `Host` header is not text")),
    }
}

fn is_same(said: &str, host: &NetworkHost, port: u16, secure: bool) -> bool {
    let own_port = if secure { 443 } else { 80 };
    let plain = in_url(host);
    let with_port = format!("{plain}:{port}");
    said.eq_ignore_ascii_case(&with_port) || port == own_port && said.eq_ignore_ascii_case(&plain)
}

/// Returns a host as it is written in a URL.
fn in_url(host: &NetworkHost) -> String {
    match host {
        NetworkHost::Address(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        NetworkHost::Address(_) | NetworkHost::Name(_) => host.to_string(),
    }
}

/// Returns the host of a request to the proxy, which is the one in its URL.
pub(super) fn proxied_host(request: &Request<Incoming>) -> Result<(NetworkHost, u16), Refusal> {
    let uri = request.uri();
    let Some(authority) = uri.authority() else {
        return Err(Refusal::bad_request("this is a proxy: the request needs a whole URL"));
    };
    if uri.scheme() != Some(&Scheme::HTTP) {
        return Err(Refusal::bad_request("this proxy serves http URLs and CONNECT"));
    }
    let (host, port) = proxy::authority(authority.as_str(), Some(80))?;
    check_host(request, &host, port, false)?;
    Ok((host, port))
}

/// Returns what a refused request said its host is, for the record.
pub(super) fn said_host(request: &Request<Incoming>) -> (String, u16) {
    let header = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let authority = request.uri().authority().map(Authority::as_str);
    (authority.or(header).unwrap_or_default().to_owned(), 0)
}

/// Returns what a request wants to become.
pub(super) fn upgrade(request: &Request<Incoming>) -> Upgrade {
    let wants = request
        .headers()
        .get(UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if wants { Upgrade::WebSocket } else { Upgrade::None }
}

/// Removes what is between neighbours.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // A guest must not remove what frames or addresses its request.
        .filter(|name| name != HOST && name != CONTENT_LENGTH && name != TRANSFER_ENCODING)
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Makes the headers of a request fit for the far side, but for its framing.
pub(super) fn clean_request(headers: &mut HeaderMap, upgrade: Upgrade) {
    let trailers = headers.get(TE).is_some_and(|value| value == "trailers");
    remove_hop_by_hop(headers);
    headers.remove(hyper::header::EXPECT);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if upgrade == Upgrade::WebSocket {
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
}

/// Makes the headers of an answer fit for the guest.
pub(super) fn clean_answer(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    // It would send guests to QUIC, which they cannot reach.
    headers.remove(hyper::header::ALT_SVC);
    // Only refusals of ours carry it.
    headers.remove(crate::process::refusal::MARK);
}

/// Gives a request the form that its connection speaks.
pub(super) fn shape(
    request: &mut Request<ProxyBody>,
    sender: &Sender,
    open: &OpenConnection,
    secure: bool,
) -> Result<(), Refusal> {
    let connection = open.connection();
    let own_port = if secure { 443 } else { 80 };
    let authority = match connection.port {
        port if port == own_port => in_url(&connection.host),
        port => format!("{}:{port}", in_url(&connection.host)),
    };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let bad = |_| Refusal::bad_request("the URL cannot be passed on");
    if sender.is_http2() {
        *request.version_mut() = hyper::Version::HTTP_2;
        request.headers_mut().remove(HOST);
        let uri = Uri::builder().scheme("https").authority(authority).path_and_query(path);
        *request.uri_mut() = uri.build().map_err(bad)?;
    } else {
        *request.version_mut() = hyper::Version::HTTP_11;
        request.headers_mut().remove(TE);
        let host = HeaderValue::try_from(authority)
            .map_err(|_| Refusal::bad_request("the host cannot be passed on"))?;
        request.headers_mut().insert(HOST, host);
        *request.uri_mut() = Uri::builder().path_and_query(path).build().map_err(bad)?;
    }
    Ok(())
}
