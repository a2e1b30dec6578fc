//! Ports of a sandbox: those that it exposes, links to them, and the path form of the proxy.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use schemars::JsonSchema;
use serde::Deserialize;
use silica_sessions::{Audience, Session, SessionError};
use silica_store::{Tenant, Timestamp};

use super::wire::Moment;
use super::wire::file::LinkCreated;
use super::wire::port::{ExposedPort, PortList};
use super::{seconds, session};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::{Code, Problem};
use crate::links::PortLink;
use crate::ports::{self, Form, PortRequest, Shown, Target};

/// The longest life of a link.
const LINK_SECONDS_MAX: f64 = 7.0 * 24.0 * 3600.0;

/// The life of a link, unless its maker says otherwise.
const LINK_SECONDS: f64 = 3600.0;

/// The longest path that a link leads to.
const LINK_PATH_BYTES_MAX: usize = 2048;

/// How many segments of a path precede what the server in the sandbox sees.
const PATH_SEGMENTS: usize = 5;
const LINK_SEGMENTS: usize = 3;

/// Returns the routes whose requests are passed on, with any method.
pub(super) fn passed_on() -> Router<App> {
    let port = "/v1/sandboxes/{sandbox}/ports/{port}";
    let others = || routing::put(by_key).patch(by_key).delete(by_key).options(by_key);
    Router::new()
        .route(port, routing::any(by_key))
        .route(&format!("{port}/"), others().post(by_key))
        .route(&format!("{port}/{{*path}}"), routing::any(by_key))
        // `POST` here makes a link.
        .route(&format!("{port}/link"), others().get(by_key))
        .route("/v1/ports/{token}", routing::any(by_link))
        .route("/v1/ports/{token}/", routing::any(by_link))
        .route("/v1/ports/{token}/{*path}", routing::any(by_link))
}

/// Parses a port in a path.
fn port_of(text: &str) -> Result<u16, Problem> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let port = digits.then(|| text.parse().ok()).flatten();
    port.ok_or_else(|| Problem::bad("a port is a number from 1 to 65535"))
}

/// Fails unless a port is exposed.
fn check_exposed(session: &Session, port: u16) -> Result<(), Problem> {
    if session.exposure().contains(port) {
        return Ok(());
    }
    Err(SessionError::PortNotExposed(port).into())
}

/// `GET …/ports`
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let exposure = session.exposure();
    let mut list = PortList {
        ports: Vec::new(),
        every: exposure.ports().is_none(),
        public: exposure.audience() == Audience::Public,
    };
    for &port in exposure.ports().into_iter().flatten() {
        let open = match session.connect_port(port).await {
            Ok(_) => true,
            Err(SessionError::PortClosed(_)) => false,
            Err(error) => return Err(error.into()),
        };
        list.ports.push(ExposedPort { port, open, url: address(&app, &session, port) });
    }
    Ok(Answer(list).into_response())
}

/// Returns the address of a port for clients with a key.
fn address(app: &App, session: &Session, port: u16) -> String {
    let id = session.id().as_str();
    match app.port_origin(port, id) {
        Some(origin) => format!("{origin}/"),
        None => format!("{}/v1/sandboxes/{id}/ports/{port}/", app.options.public_url),
    }
}

/// A link to a port to be made
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(
    rename = "MakePortLink",
    extend("examples" = [{"path": "/", "expires_seconds": 3600}])
)]
pub(crate) struct PortLinkBody {
    /// Where it leads on the server, with a query if needed: `/` if left out
    path: Option<String>,
    /// How long it works: 3600 if left out, at most a week
    expires_seconds: Option<f64>,
}

/// `POST …/ports/{port}/link`
pub(crate) async fn link(
    State(app): State<App>,
    caller: Caller,
    Path((id, port)): Path<(String, String)>,
    Json(body): Json<PortLinkBody>,
) -> Result<Response, Problem> {
    let port = port_of(&port)?;
    let session = session(&app, &caller, &id).await?;
    check_exposed(&session, port)?;
    let life = body.expires_seconds.unwrap_or(LINK_SECONDS);
    if !(life > 0.0 && life <= LINK_SECONDS_MAX) {
        let words = format!("expires_seconds must be above 0 and at most {LINK_SECONDS_MAX}");
        return Err(Problem::bad(words));
    }
    let path = link_path(body.path)?;
    let life: Duration = seconds(life)?;
    let expires_at = Timestamp::now().after(life);
    let link = PortLink {
        sandbox: session.id().to_string(),
        tenant: caller.tenant.to_string(),
        port,
        path: path.clone(),
        expires: expires_at.as_micros(),
    };
    let token = app.link_key.seal_port(&link);
    let url = match app.port_origin(port, session.id().as_str()) {
        Some(origin) => format!("{origin}{}{token}", ports::access::OPEN),
        None => format!("{}/v1/ports/{token}{path}", app.options.public_url),
    };
    Ok(Answer(LinkCreated { url, expires_at: Moment(expires_at) }).into_response())
}

/// Checks the path that a link leads to: one of the server itself.
fn link_path(path: Option<String>) -> Result<String, Problem> {
    let path = path.unwrap_or_else(|| "/".to_owned());
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_path = path.starts_with('/') && !path.starts_with("//");
    if is_path && is_plain && path.len() <= LINK_PATH_BYTES_MAX {
        return Ok(path);
    }
    let words = "path must begin with one slash, be encoded and have at most 2048 bytes";
    Err(Problem::bad(words))
}

/// Any method of `…/ports/{port}/…`, with a key.
pub(crate) async fn by_key(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let caller = Caller::from_request_parts(&mut parts, &app).await?;
    let request = Request::from_parts(parts, body);
    let (prefix, path) = ports::split_path(request.uri().path(), PATH_SEGMENTS);
    let mut segments = prefix.split('/').skip(3);
    let id = segments.next().unwrap_or_default();
    let port = port_of(segments.nth(1).unwrap_or_default())?;
    let session = session(&app, &caller, id).await?;
    if path.is_empty() {
        return Ok(with_slash(prefix, request.uri().query()));
    }
    let form = Form::Path { prefix: prefix.to_owned() };
    let path = ports::inner_path(path, request.uri().query());
    let path = path.ok_or_else(|| Problem::bad("the path is not valid"))?;
    let target = Target { session, port };
    let asked = PortRequest { target, form, shown: Shown::Key, path, request };
    ports::forward(&app.kept_connections, asked).await
}

/// Any method of `/v1/ports/{token}/…`.
async fn by_link(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let invalid = || Problem::new(Code::LinkInvalid, "this link is not valid, or not any more");
    let (prefix, path) = ports::split_path(request.uri().path(), LINK_SEGMENTS);
    let token = prefix.rsplit('/').next().unwrap_or_default();
    let link = app.link_key.open_port(token, Timestamp::now()).ok_or_else(invalid)?;
    let tenant = Tenant::parse(&link.tenant).map_err(|_| invalid())?;
    let caller = Caller { tenant, admin: false, approve: false };
    let session: Arc<Session> = session(&app, &caller, &link.sandbox).await?;
    if path.is_empty() {
        return Ok(with_slash(prefix, request.uri().query()));
    }
    let form = Form::Link { prefix: prefix.to_owned() };
    let path = ports::inner_path(path, request.uri().query()).ok_or_else(invalid)?;
    let target = Target { session, port: link.port };
    let (parts, body) = request.into_parts();
    ports::access::admit(&app, &parts, &target).await?;
    let request = Request::from_parts(parts, body);
    let asked = PortRequest { target, form, shown: Shown::NoKey, path, request };
    ports::forward(&app.kept_connections, asked).await
}

/// Leads to the same path with a slash at its end: links of a page are relative to it.
fn with_slash(path: &str, query: Option<&str>) -> Response {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let location = HeaderValue::try_from(format!("{path}/{query}"));
    let location = location.unwrap_or_else(|_| HeaderValue::from_static("/"));
    (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, location)]).into_response()
}
