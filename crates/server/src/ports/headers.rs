//! Which headers pass, in both directions.
//!
//! Inward nothing goes that gives a right over this server. Outward nothing goes by which a page from a
//! sandbox could act on an origin that is not its own.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, request};

use super::access::is_own_cookie;
use super::{Form, Shown};
use crate::http::connection::Connection;

/// A change of protocol that is passed on. There is one: others could speak past the rules here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upgrade {
    WebSocket,
}

const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
const UPGRADE: HeaderValue = HeaderValue::from_static("upgrade");

impl Upgrade {
    /// Returns whether a response agrees to it.
    pub(super) fn is_in<B>(self, response: &Response<B>) -> bool {
        let Self::WebSocket = self;
        response.status() == StatusCode::SWITCHING_PROTOCOLS && names_websocket(response.headers())
    }
}

fn names_websocket(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::UPGRADE).iter();
    let only = values.next().filter(|_| values.next().is_none());
    only.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Returns the change of protocol that a request asks for.
pub(super) fn upgrade<B>(request: &Request<B>) -> Option<Upgrade> {
    let asks = request.method() == Method::GET
        && connection_options(request.headers()).any(|option| option == "upgrade")
        && names_websocket(request.headers());
    asks.then_some(Upgrade::WebSocket)
}

/// Headers that are about one connection only; RFC 9110, section 7.6.1. The length of a body is
/// written anew.
const OF_CONNECTION: [HeaderName; 10] = [
    header::CONNECTION,
    header::UPGRADE,
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
    header::TE,
    header::TRAILER,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Headers of a request that this server reads or writes itself.
const OWN_INWARD: [&str; 12] = [
    "host",
    "expect",
    "x-api-key",
    "x-access-token",
    "e2b-traffic-access-token",
    "e2b-sandbox-id",
    "e2b-sandbox-port",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-prefix",
];

/// Headers of a response that no server in a sandbox may send: they act on more than the response.
const REFUSED_OUTWARD: [&str; 3] = ["service-worker-allowed", "alt-svc", "x-request-id"];

/// Headers of a response that act on the whole origin, which is the API's unless the port has a host of
/// its own.
const OF_ORIGIN: [&str; 12] = [
    "set-cookie",
    "clear-site-data",
    "strict-transport-security",
    "public-key-pins",
    "www-authenticate",
    "nel",
    "report-to",
    "reporting-endpoints",
    "accept-ch",
    "critical-ch",
    "origin-agent-cluster",
    "refresh",
];

/// The names that the `Connection` header lists, in lower case.
fn connection_options(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let values = headers.get_all(header::CONNECTION).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|option| option.trim().to_ascii_lowercase())
}

/// Copies the headers that are not about the connection, and that `passes` lets through.
fn copied(headers: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let listed: Vec<String> = connection_options(headers).collect();
    let mut copy = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let of_connection =
            OF_CONNECTION.contains(name) || listed.iter().any(|listed| listed == name.as_str());
        if !of_connection && passes(name) {
            copy.append(name, value.clone());
        }
    }
    copy
}

/// Returns the headers of the request that the server in the sandbox sees.
pub(super) fn inner(
    parts: &request::Parts,
    form: &Form,
    shown: Shown,
    port: u16,
    upgrade: Option<Upgrade>,
) -> HeaderMap {
    let mut headers = copied(&parts.headers, |name| !OWN_INWARD.contains(&name.as_str()));
    let keeps_authorization = *form == Form::Host
        && shown == Shown::NoKey
        && headers.get(header::AUTHORIZATION).is_some_and(|value| !is_key(value));
    if !keeps_authorization {
        headers.remove(header::AUTHORIZATION);
    }
    if *form == Form::Host {
        hide_own_cookies(&mut headers);
    } else {
        // Of the API's origin, and so none of the sandbox's business.
        for name in [header::COOKIE, header::REFERER, header::ORIGIN] {
            headers.remove(name);
        }
    }
    let outer_host = parts.headers.get(header::HOST).cloned();
    let local = HeaderValue::try_from(format!("localhost:{port}")).ok();
    let host = if *form == Form::Host { outer_host.clone() } else { None };
    put(&mut headers, header::HOST, host.or(local));
    put(&mut headers, HeaderName::from_static("x-forwarded-host"), outer_host);
    if let Some(connection) = parts.extensions.get::<Arc<Connection>>() {
        let peer = HeaderValue::try_from(connection.peer().to_string()).ok();
        put(&mut headers, HeaderName::from_static("x-forwarded-for"), peer);
    }
    if let Form::Path { prefix } = form {
        let prefix = HeaderValue::try_from(prefix.as_str()).ok();
        put(&mut headers, HeaderName::from_static("x-forwarded-prefix"), prefix);
    }
    mark_upgrade(&mut headers, upgrade);
    headers
}

/// Returns the headers of the response that the client sees.
pub(super) fn outer(
    of_server: &HeaderMap,
    form: &Form,
    port: u16,
    upgrade: Option<Upgrade>,
) -> HeaderMap {
    let on_own_host = *form == Form::Host;
    let passes = |name: &HeaderName| {
        let name = name.as_str();
        let of_origin = OF_ORIGIN.contains(&name) || name.starts_with("access-control-");
        !REFUSED_OUTWARD.contains(&name) && (on_own_host || !of_origin)
    };
    let mut headers = copied(of_server, passes);
    if on_own_host {
        restrict_cookies(&mut headers);
    } else {
        // Beside what the server sends: a browser obeys each policy.
        let sandbox = HeaderValue::from_static("sandbox");
        headers.append(header::CONTENT_SECURITY_POLICY, sandbox);
    }
    if let Form::Path { prefix } | Form::Link { prefix } = form {
        keep_redirect_below(&mut headers, prefix, port);
    }
    mark_upgrade(&mut headers, upgrade);
    headers
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) {
    if let Some(value) = value {
        headers.insert(name, value);
    }
}

fn mark_upgrade(headers: &mut HeaderMap, upgrade: Option<Upgrade>) {
    if let Some(Upgrade::WebSocket) = upgrade {
        headers.insert(header::CONNECTION, UPGRADE);
        headers.insert(header::UPGRADE, WEBSOCKET);
    }
}

/// Returns whether a value may contain a key of this server.
fn is_key(value: &HeaderValue) -> bool {
    let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
    text.contains("silica_") || text.contains("e2b_")
}

/// Removes the cookies that let a browser through from the `Cookie` headers.
fn hide_own_cookies(headers: &mut HeaderMap) {
    let mut kept: Vec<u8> = Vec::new();
    for value in headers.get_all(header::COOKIE) {
        for pair in value.as_bytes().split(|byte| *byte == b';') {
            let pair = pair.trim_ascii();
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            if !pair.is_empty() && !is_own_cookie(name) {
                if !kept.is_empty() {
                    kept.extend_from_slice(b"; ");
                }
                kept.extend_from_slice(pair);
            }
        }
    }
    headers.remove(header::COOKIE);
    let kept = (!kept.is_empty()).then(|| HeaderValue::from_bytes(&kept).ok()).flatten();
    put(headers, header::COOKIE, kept);
}

/// Limits cookies to the host of the port: without a domain, and none under a name of this server's.
fn restrict_cookies(headers: &mut HeaderMap) {
    let cookies: Vec<HeaderValue> = headers
        .get_all(header::SET_COOKIE)
        .iter()
        .filter_map(|value| restricted_cookie(value.as_bytes()))
        .collect();
    headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        headers.append(header::SET_COOKIE, cookie);
    }
}

fn restricted_cookie(cookie: &[u8]) -> Option<HeaderValue> {
    let mut parts = cookie.split(|byte| *byte == b';');
    let pair = parts.next()?;
    let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
    if is_own_cookie(name) {
        return None;
    }
    let mut kept = pair.to_vec();
    for attribute in parts {
        let name = attribute.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        if !name.eq_ignore_ascii_case(b"domain") {
            kept.push(b';');
            kept.extend_from_slice(attribute);
        }
    }
    HeaderValue::from_bytes(&kept).ok()
}

/// Has a redirect to a path of the server lead below the path of the port.
fn keep_redirect_below(headers: &mut HeaderMap, prefix: &str, port: u16) {
    let Some(location) = headers.get(header::LOCATION) else { return };
    let below = location.to_str().ok().and_then(|location| {
        let own = [format!("http://localhost:{port}"), format!("http://127.0.0.1:{port}")];
        let own = own.iter().find_map(|own| location.strip_prefix(own.as_str()));
        let path = own.unwrap_or(location);
        (path.starts_with('/') && !path.starts_with("//")).then(|| format!("{prefix}{path}"))
    });
    let below = below.and_then(|below| HeaderValue::try_from(below).ok());
    put(headers, header::LOCATION, below);
}
