//! What every request goes through: an id, a look at where it comes from, a line in the log.
//!
//! A web page of another origin can do nothing here: its requests carry an `Origin`, or reach us under
//! a name that is not ours, and no answer ever allows it to read anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;

use crate::app::App;
use crate::http::json::BodyMax;
use crate::http::problem::{Code, Pending, Problem};

/// The id of a request, in its extensions.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) String);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// An answer that is complete, in a form that is not ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsItIs;

/// Unique in this process; the process's start keeps it apart from others'.
fn request_id(app: &App) -> String {
    format!("req_{:x}_{:x}", app.metrics.started_micros, NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&app);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str).to_owned();
    request.extensions_mut().insert(BodyMax(app.options.body_bytes_max));
    request.extensions_mut().insert(RequestId(id.clone()));
    let span = tracing::info_span!("request", id, tenant = tracing::field::Empty);
    let response = match check_source(&app, &request) {
        Ok(()) => next.run(request).instrument(span.clone()).await,
        Err(problem) => problem.into_response(),
    };
    let mut response = match response.extensions().get::<Pending>() {
        Some(Pending(problem)) => {
            let mut rendered = problem.clone().render(&id);
            if let Some(close) = response.headers().get(header::CONNECTION) {
                rendered.headers_mut().insert(header::CONNECTION, close.clone());
            }
            rendered
        }
        None => complete(response, &id),
    };
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", value);
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let (status, took) = (response.status().as_u16(), started.elapsed());
    app.metrics.request(&route, status, took);
    let duration_us = took.as_micros() as u64;
    tracing::debug!(parent: &span, %method, route, status, duration_us, "answered");
    response
}

/// Errors that the framework found by itself become problems like all others.
fn complete(response: Response, id: &str) -> Response {
    let status = response.status();
    let is_json = response.headers().contains_key(header::CONTENT_TYPE)
        && response.headers()[header::CONTENT_TYPE].as_bytes().ends_with(b"json");
    let is_complete = is_json || response.extensions().get::<AsItIs>().is_some();
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
    Problem::new(code, "the request does not make sense here").render(id)
}

fn check_source(app: &App, request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    if let Some(origin) = headers.get(header::ORIGIN) {
        let allowed = |known: &String| known.as_bytes() == origin.as_bytes();
        if !app.options.allowed_origins.iter().any(allowed) {
            let words = "web pages of this origin may not use this server";
            return Err(Problem::new(Code::WrongOrigin, words));
        }
    }
    if app.options.allowed_hosts.is_empty() {
        return Ok(());
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = without_port(host);
    if app.options.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    Err(Problem::new(Code::WrongOrigin, "this server is not known under that name"))
}

/// The name in a `Host` header.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}
