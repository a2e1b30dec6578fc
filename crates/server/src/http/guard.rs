//! The middleware around every request: gives it an id, checks where it comes from, renders refusals
//! in the facade's dialect, survives a handler that panics, and logs and counts the response.
//!
//! A web page of another origin can do nothing here: its requests carry an `Origin`, or name a host
//! that is not this server's, and no response ever allows it to read anything.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tracing::Instrument;

use crate::app::AppOptions;
use crate::http::dialect::{Complete, Dialect, OwnOrigin, Pages};
use crate::http::in_flight::InFlight;
use crate::http::json::BodyMax;
use crate::http::problem::{Code, Pending, Problem};
use crate::http::returnable;
use crate::metrics::Metrics;
use crate::ports::Foreign;

/// The id of a request, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) String);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// What the guards of all facades share.
#[derive(Clone, Debug)]
pub(crate) struct GuardContext {
    pub(crate) options: Arc<AppOptions>,
    pub(crate) metrics: Arc<Metrics>,
}

/// The guard of one facade.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) context: GuardContext,
    /// Renders refusals.
    pub(crate) dialect: Arc<dyn Dialect>,
}

/// Returns an id that is unique in this process, and by the time of its start across processes.
fn request_id(metrics: &Metrics) -> String {
    format!("req_{:x}_{:x}", metrics.started_micros, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Checks a request, runs it and completes the response.
pub(crate) async fn guard(
    State(Guard { context: GuardContext { options, metrics }, dialect }): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let id = request_id(&metrics);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str).to_owned();
    request.extensions_mut().insert(BodyMax(options.body_bytes_max));
    request.extensions_mut().insert(RequestId(id.clone()));
    let key = LoggedKey::default();
    request.extensions_mut().insert(key.clone());
    let in_flight = InFlight::default();
    request.extensions_mut().insert(in_flight.clone());
    let request = request.map(returnable::drained);
    let span = tracing::info_span!("request", id, tenant = tracing::field::Empty);
    let checked = match dialect.pages() {
        Pages::Refused => check_source(&options, &request, dialect.own_origin()),
        Pages::Own => Ok(()),
    };
    let response = match checked {
        Ok(()) => run(next, request).instrument(span.clone()).await,
        Err(problem) => problem.into_response(),
    };
    in_flight.release();
    let mut response = render(response, &*dialect, &id);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    if response.extensions().get::<Foreign>().is_none() {
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    let status = response.status().as_u16();
    let took = started.elapsed();
    metrics.request(&route, status, took);
    let ms = took.as_micros() as f64 / 1000.0;
    let key = key.0.get().map_or("", String::as_str);
    // The pattern of the route and never the path or the query, which hold tokens and names.
    if HEALTH.contains(&route.as_str()) {
        tracing::debug!(parent: &span, %method, route, status, ms, key, "request");
    } else {
        tracing::info!(parent: &span, %method, route, status, ms, key, "request");
    }
    response
}

/// The routes whose requests are logged at debug: programs ask for them every few seconds.
const HEALTH: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// The name of the key of a request, or its id, for the log; set once the key is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoggedKey(pub(crate) Arc<OnceLock<String>>);

/// Runs the handler. One that panics is refused like every other failure of the server.
async fn run(next: Next, request: Request) -> Response {
    let running = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    running.unwrap_or_else(|_| {
        tracing::error!("a handler panicked");
        Problem::new(Code::Internal, "the server failed; its log has the request's id")
            .into_response()
    })
}

/// Renders the problem in a response, and errors that the framework found itself.
fn render(response: Response, dialect: &dyn Dialect, id: &str) -> Response {
    if let Some(Pending(problem)) = response.extensions().get::<Pending>() {
        let mut rendered = dialect.refuse(problem, id);
        if let Some(close) = response.headers().get(header::CONNECTION) {
            rendered.headers_mut().insert(header::CONNECTION, close.clone());
        }
        return rendered;
    }
    let status = response.status();
    let is_json = response.headers().contains_key(header::CONTENT_TYPE)
        && response.headers()[header::CONTENT_TYPE].as_bytes().ends_with(b"json");
    let is_complete = is_json || response.extensions().get::<Complete>().is_some();
    if !(status.is_client_error() || status.is_server_error()) || is_complete {
        return response;
    }
    let code = match status.as_u16() {
        404 => Code::NotFound,
        405 => Code::MethodNotAllowed,
        413 => Code::TooLarge,
        500..=599 => Code::Internal,
        _ => Code::BadRequest,
    };
    dialect.refuse(&Problem::new(code, "invalid request"), id)
}

/// Refuses requests of web pages, and those to other host names.
pub(crate) fn check_source(
    options: &AppOptions,
    request: &Request,
    own: OwnOrigin,
) -> Result<(), Problem> {
    let headers = request.headers();
    if let Some(origin) = headers.get(header::ORIGIN) {
        let allowed = |known: &String| known.as_bytes() == origin.as_bytes();
        let is_own = own == OwnOrigin::Allowed && is_own_origin(options, headers, origin);
        if !is_own && !options.allowed_origins.iter().any(allowed) {
            let words = "web pages of this origin may not use this server";
            return Err(Problem::new(Code::WrongOrigin, words));
        }
    }
    let host = host_of(request)?;
    let is_allowed = |allowed: &String| allowed.eq_ignore_ascii_case(host.unwrap_or_default());
    if options.allowed_hosts.is_empty() || options.allowed_hosts.iter().any(is_allowed) {
        return Ok(());
    }
    let words =
        "the server does not answer to this host name; server.allowed_hosts lists those it does";
    Err(Problem::new(Code::WrongOrigin, words))
}

/// Returns whether an origin is this server: the address in its links, or the host that the request is for.
/// The latter counts only if the operator says which hosts there are; any other name may be made to lead
/// here by its owner.
fn is_own_origin(options: &AppOptions, headers: &HeaderMap, origin: &HeaderValue) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    if origin == options.public_url.trim_end_matches('/') {
        return true;
    }
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    !options.allowed_hosts.is_empty() && authority.is_some() && authority == host
}

/// Returns the host name that a request is for, without its port. A request that names several, or one
/// that is none, could mean another host for a proxy than for this server, and is refused.
pub(crate) fn host_of(request: &Request) -> Result<Option<&str>, Problem> {
    let mut headers = request.headers().get_all(header::HOST).iter();
    let named = headers.next();
    if headers.next().is_some() {
        return Err(Problem::bad("a request must have one Host header"));
    }
    let invalid = || Problem::bad("the Host header must be a host name with an optional port");
    let named = named.map(|value| value.to_str().map_err(|_| invalid())).transpose()?;
    let named = named.map(|value| without_port(value).ok_or_else(invalid)).transpose()?;
    match (request.uri().host(), named) {
        // The form of requests to a proxy: both must mean one host.
        (Some(host), Some(named)) if !unbracketed(host).eq_ignore_ascii_case(named) => {
            Err(Problem::bad("the host of the URL and the Host header must be the same"))
        }
        (Some(host), _) => Ok(Some(unbracketed(host))),
        (None, named) => Ok(named),
    }
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Returns the name or address in a `Host` header; `None` if there is anything else in it.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (address, port)
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte);
    let is_valid = name.bytes().all(is_plain)
        && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    is_valid.then_some(name)
}

#[cfg(test)]
mod tests;
