//! The control plane: sandboxes made, found, listed, kept and ended, by a key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware, routing};
use serde::Deserialize;
use serde_json::{Map, Value};
use silica_domain::NetworkPolicy;
use silica_sessions::{EndReason, LifeChange, NetworkRequest, Session, SessionError};
use silica_store::Timestamp;
use silica_store::sandboxes::{Filter, Order, State as SandboxState};

use super::access::{ControlCaller, E2bJson, addressed, header};
use super::error::{E2bError, E2bResult, ErrorShape};
use super::network::NetworkSettings;
use super::sandbox::{self, CreateBody, LIFE_SECONDS, LIFE_SECONDS_V1};
use super::{SANDBOX_ID, SANDBOX_PORT};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::dialect::render_errors;
use crate::http::json::Answer;
use crate::http::problem::{Code, Problem};
use crate::http::session::{self, Found, Requester};
use crate::ports::{self, Form, PortRequest, Target};

/// The most sandboxes on one page.
const PAGE_MAX: usize = 100;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/v2/sandboxes", routing::post(create_v2).get(list))
        .route("/sandboxes", routing::post(create_v1).get(list))
        .route("/v2/sandboxes/{sandbox}/connect", routing::post(connect))
        .route("/sandboxes/{sandbox}/connect", routing::post(connect))
        .route("/sandboxes/{sandbox}/resume", routing::post(resume))
        .route("/sandboxes/{sandbox}", routing::get(get).delete(kill))
        .route("/sandboxes/{sandbox}/timeout", routing::post(set_timeout))
        .route("/sandboxes/{sandbox}/refreshes", routing::post(refresh))
        .route("/sandboxes/{sandbox}/metrics", routing::get(metrics))
        .route("/sandboxes/{sandbox}/network", routing::put(update_network))
        .route("/sandboxes/{sandbox}/pause", routing::post(pause))
        .route("/sandboxes/{sandbox}/snapshots", routing::post(snapshot))
        .route("/sandboxes/{sandbox}/fork", routing::post(fork))
        .route("/snapshots", routing::get(snapshots))
        .route("/templates/{template}", routing::delete(delete_template))
        .route("/templates/aliases/{alias}", routing::get(alias))
        .route("/v3/templates", routing::post(build))
        .layer(middleware::from_fn_with_state(ErrorShape::Number, render_errors::<ErrorShape>))
}

/// Returns the caller's live sandbox. One that has ended does not exist for E2B's clients.
fn live(app: &App, caller: &Caller, id: &str) -> Result<Arc<Session>, E2bError> {
    let found = session::find(app, Requester::Tenant(&caller.tenant), id);
    let missing = || E2bError::missing(format!("sandbox {id} was not found"));
    found.and_then(Found::live).ok_or_else(missing)
}

async fn create_v2(
    state: State<App>,
    owner: ControlCaller,
    body: E2bJson<CreateBody>,
) -> E2bResult {
    create(state, owner, body, LIFE_SECONDS).await
}

async fn create_v1(
    state: State<App>,
    owner: ControlCaller,
    body: E2bJson<CreateBody>,
) -> E2bResult {
    create(state, owner, body, LIFE_SECONDS_V1).await
}

async fn create(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    E2bJson(body): E2bJson<CreateBody>,
    life_seconds: u64,
) -> E2bResult {
    let started = Instant::now();
    let plan = body.plan(&app, life_seconds)?;
    let session = app.sessions.create(&caller.tenant, plan).await?;
    app.metrics.stage("create", started.elapsed());
    Ok((StatusCode::CREATED, Answer(sandbox::access(&app, &session))).into_response())
}

#[derive(Debug, Deserialize)]
struct ConnectBody {
    timeout: Option<u64>,
}

async fn connect(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    Path(id): Path<String>,
    E2bJson(body): E2bJson<ConnectBody>,
) -> E2bResult {
    let session = live(&app, &caller, &id)?;
    let life = Duration::from_secs(body.timeout.unwrap_or(LIFE_SECONDS));
    app.sessions.set_life(&session, life, LifeChange::Extend).await?;
    Ok(Answer(sandbox::access(&app, &session)).into_response())
}

/// What older clients do to connect: a sandbox that runs cannot be resumed, which they take for good.
async fn resume(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    Path(id): Path<String>,
    E2bJson(body): E2bJson<ConnectBody>,
) -> E2bResult {
    let session = live(&app, &caller, &id)?;
    if let Some(timeout) = body.timeout {
        let life = Duration::from_secs(timeout);
        app.sessions.set_life(&session, life, LifeChange::Extend).await?;
    }
    Err(Problem::new(Code::Conflict, format!("sandbox {id} is already running")).into())
}

async fn get(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    Path(id): Path<String>,
) -> E2bResult {
    let session = live(&app, &caller, &id)?;
    Ok(Answer(sandbox::detail(&app, &session)).into_response())
}

async fn kill(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    Path(id): Path<String>,
) -> E2bResult {
    let started = Instant::now();
    let session = live(&app, &caller, &id)?;
    app.sessions.delete(session).await;
    app.metrics.stage("delete", started.elapsed());
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Debug, Deserialize)]
struct TimeoutBody {
    timeout: u64,
}

async fn set_timeout(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    Path(id): Path<String>,
    E2bJson(body): E2bJson<TimeoutBody>,
) -> E2bResult {
    let session = live(&app, &caller, &id)?;
    if body.timeout == 0 {
        app.sessions.end(&session, EndReason::Expired).await;
    } else {
        let life = Duration::from_secs(body.timeout);
        app.sessions.set_life(&session, life, LifeChange::Set).await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Debug, Deserialize)]
struct RefreshBody {
    duration: Option<u64>,
}

async fn refresh(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    Path(id): Path<String>,
    E2bJson(body): E2bJson<RefreshBody>,
) -> E2bResult {
    let session = live(&app, &caller, &id)?;
    let life = Duration::from_secs(body.duration.unwrap_or(LIFE_SECONDS_V1));
    app.sessions.set_life(&session, life, LifeChange::Extend).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn pairs(query: Option<&str>) -> Result<Vec<(String, String)>, E2bError> {
    serde_urlencoded::from_str(query.unwrap_or_default())
        .map_err(|error| E2bError::bad(format!("the query cannot be read: {error}")))
}

async fn list(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    RawQuery(query): RawQuery,
) -> E2bResult {
    let pairs = pairs(query.as_deref())?;
    let paused_only = pairs.iter().any(|(name, value)| name == "state" && value == "paused");
    let mut filter = filter(&app, &caller, &pairs)?;
    filter.states.insert(SandboxState::Running);
    let page = app.sessions.records().list(&filter).await?;
    let find = |id: &str| app.sessions.find(&caller.tenant, id).ok();
    let found: Vec<Value> = page
        .records
        .iter()
        .filter(|_| !paused_only)
        .filter_map(|record| find(record.id.as_str()))
        .filter(|session| session.end_reason().is_none())
        .map(|session| sandbox::listed(&app, &session.info()))
        .collect();
    let mut response = Answer(found).into_response();
    if let Some(next) = page.next.filter(|_| !paused_only)
        && let Ok(token) = HeaderValue::from_str(&next.to_string())
    {
        response.headers_mut().insert("x-next-token", token);
    }
    Ok(response)
}

fn filter(app: &App, caller: &Caller, pairs: &[(String, String)]) -> Result<Filter, E2bError> {
    let tenant = Some(caller.tenant.clone());
    let mut filter = Filter { tenant, limit: PAGE_MAX, ..Filter::default() };
    for (name, value) in pairs {
        let wrong = || E2bError::bad(format!("{value:?} is no {name}"));
        match name.as_str() {
            "limit" => {
                let limit: usize = value.parse().map_err(|_| wrong())?;
                filter.limit = limit.clamp(1, PAGE_MAX);
            }
            "nextToken" if value.is_empty() => {}
            "nextToken" => filter.after = Some(value.parse().map_err(|_| wrong())?),
            "order" if value == "asc" => filter.order = Order::OldestFirst,
            "order" if value == "desc" => filter.order = Order::NewestFirst,
            "state" if value.split(',').all(|state| ["running", "paused"].contains(&state)) => {}
            "template" => {
                let named = sandbox::template(value);
                filter.template = Some(named.unwrap_or(app.sessions.options().template.clone()));
            }
            "startedAfter" => filter.created_from = Some(moment(value).ok_or_else(wrong)?),
            "metadata" => filter.metadata.extend(metadata(value)?),
            _ => return Err(wrong()),
        }
    }
    Ok(filter)
}

/// A moment as their clients write it: RFC 3339 in UTC, by `Z` or `+00:00`.
fn moment(text: &str) -> Option<Timestamp> {
    let plain = text.strip_suffix("+00:00").map(|plain| format!("{plain}Z"));
    plain.as_deref().unwrap_or(text).parse().ok()
}

/// A query in the value of a query, each part of it encoded once more.
pub(super) fn metadata(text: &str) -> Result<BTreeMap<String, String>, E2bError> {
    let decoded = |text: &str| {
        let whole: Vec<(String, String)> =
            serde_urlencoded::from_str(&format!("x={}", text.replace('+', "%2B"))).ok()?;
        whole.into_iter().next().map(|(_, value)| value)
    };
    pairs(Some(text))?
        .iter()
        .map(|(name, value)| Some((decoded(name)?, decoded(value)?)))
        .collect::<Option<_>>()
        .ok_or_else(|| E2bError::bad("the metadata cannot be read"))
}

async fn metrics(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> E2bResult {
    let session = live(&app, &caller, &id)?;
    let pairs = pairs(query.as_deref())?;
    let bound = |name: &str| {
        let given = pairs.iter().find(|(known, _)| known == name);
        given.map(|(_, value)| value.parse::<i64>()).transpose()
    };
    let wrong = |_| E2bError::bad("start and end are seconds since 1970");
    let (start, end) = (bound("start").map_err(wrong)?, bound("end").map_err(wrong)?);
    let mut samples = session.samples();
    samples.push(session.usage());
    Ok(Answer(sandbox::metrics(&session.info(), &samples, start, end)).into_response())
}

async fn update_network(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    Path(id): Path<String>,
    E2bJson(body): E2bJson<Map<String, Value>>,
) -> E2bResult {
    let session = live(&app, &caller, &id)?;
    let settings = NetworkSettings::parse(&body, None)?;
    let request = settings.request(&app)?;
    let request = request.unwrap_or_else(|| NetworkRequest::new(NetworkPolicy::none()));
    app.sessions.set_network(&session, &request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn pause(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    Path(id): Path<String>,
) -> E2bResult {
    live(&app, &caller, &id)?;
    Err(E2bError::Unsupported("pausing a sandbox".to_owned()))
}

async fn snapshot(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    Path(id): Path<String>,
) -> E2bResult {
    live(&app, &caller, &id)?;
    Err(E2bError::Unsupported("a snapshot of a sandbox".to_owned()))
}

async fn fork(
    State(app): State<App>,
    ControlCaller(caller): ControlCaller,
    Path(id): Path<String>,
) -> E2bResult {
    live(&app, &caller, &id)?;
    Err(E2bError::Unsupported("forking a sandbox".to_owned()))
}

/// There are none, since none can be made.
async fn snapshots(_: ControlCaller) -> E2bResult {
    Ok(Answer(Vec::<Value>::new()).into_response())
}

/// How snapshots are removed.
async fn delete_template(_: ControlCaller, Path(id): Path<String>) -> E2bResult {
    Err(E2bError::missing(format!("there is no snapshot {id}")))
}

async fn alias(State(app): State<App>, _: ControlCaller, Path(alias): Path<String>) -> E2bResult {
    let name = sandbox::template(&alias).unwrap_or(app.sessions.options().template.clone());
    let known = app.options.templates.iter().any(|template| template["name"] == name.as_str());
    if !known {
        return Err(SessionError::NoTemplate(alias).into());
    }
    Ok(Answer(serde_json::json!({"templateID": name, "public": true})).into_response())
}

async fn build(_: ControlCaller) -> E2bResult {
    Err(E2bError::Unsupported("building templates over this API".to_owned()))
}

/// Returns the routes of every port of a sandbox but those of the two services.
/// Returns the routes of every port but those of E2B's own services.
pub(super) fn ports() -> Router<App> {
    Router::new().route("/", routing::any(port)).route("/{*path}", routing::any(port))
}

/// Passes a request on to a server in the sandbox, if its port is exposed.
async fn port(State(app): State<App>, request: Request) -> Response {
    let sandbox = header(request.headers(), SANDBOX_ID).unwrap_or_default().to_owned();
    let port = header(request.headers(), SANDBOX_PORT).unwrap_or_default().to_owned();
    let closed = || E2bError::PortClosed { sandbox: sandbox.clone(), port: port.clone() };
    let found = addressed(&app, request.headers());
    let passed = match (found, port.parse()) {
        (Ok(session), Ok(port)) if session.exposure().contains(port) => {
            pass_on(&app, Target { session, port }, request).await
        }
        (Ok(_), _) => Err(closed()),
        (Err(refusal), _) => Err(refusal),
    };
    let refusal = match passed {
        Ok(response) => return response,
        Err(E2bError::Problem(problem)) if problem.code() == Code::PortClosed => closed(),
        Err(refusal) => refusal,
    };
    refusal.render(ErrorShape::Number)
}

async fn pass_on(app: &App, target: Target, request: Request) -> E2bResult {
    let (parts, body) = request.into_parts();
    let shown = ports::access::authorize(app, &parts, &target).await?;
    let path = ports::inner_path(parts.uri.path(), parts.uri.query());
    let path = path.ok_or_else(|| E2bError::bad("the path is not valid"))?;
    let request = Request::from_parts(parts, body);
    let asked = PortRequest { target, form: Form::Header, shown, path, request };
    Ok(ports::forward(&app.kept_connections, asked).await?)
}
