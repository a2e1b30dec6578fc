//! Sandboxes: created, listed, extended, measured and deleted.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use silica_engine::Input;
use silica_sessions::{LifeChange, SandboxRequest, SessionError};
use silica_store::sandboxes::{Filter, State as SandboxState};

use super::network::NetworkBody;
use super::tier::{self, TierBody};
use super::wire::sandbox::{Sandbox, SandboxList, Usage, UsageReport};
use super::{one_of, seconds, session};
use crate::app::{App, SharedInput};
use crate::facade::limits::LimitsBody;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::Problem;

/// A read-only input below /data/input: content, content_base64, or something shared
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    inline,
    transform = one_of(&[
        ("content", "string"), ("content_base64", "string"), ("shared", "string"),
    ])
)]
pub(crate) struct InputBody {
    /// Its name below /data/input
    name: String,
    /// Its text
    content: Option<String>,
    /// Its bytes
    #[schemars(extend("contentEncoding" = "base64"))]
    content_base64: Option<String>,
    /// The name of an input that the operator offers
    shared: Option<String>,
}

/// A sandbox to be created
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CreateSandbox", extend("examples" = [{
    "template": "code-interpreter",
    "limits": {"memory_bytes": 536_870_912, "cpus": 1.0},
    "env": {"K": "V"},
    "metadata": {"user": "42"},
    "ttl_seconds": 3600,
    "idle_seconds": 600,
    "inputs": [{"name": "data.csv", "content": "a,b\n1,2\n"}],
    "interpreter": "forked",
}]))]
pub(crate) struct CreateSandboxBody {
    /// The template that it starts from; the server's default if left out
    template: Option<String>,
    /// What isolates it; the server's tier if left out
    tier: Option<TierBody>,
    /// Its limits
    limits: LimitsBody,
    /// Variables of every process in it
    env: BTreeMap<String, String>,
    /// Pairs by which its owner can list it
    metadata: BTreeMap<String, String>,
    /// Its lifetime
    ttl_seconds: Option<f64>,
    /// The time without use after which it ends
    idle_seconds: Option<f64>,
    /// The number of cells that it may run
    max_cells: Option<u64>,
    /// Read-only inputs
    inputs: Vec<InputBody>,
    /// Its network; none if left out
    network: Option<NetworkBody>,
    /// `forked` takes milliseconds, `fresh` shares nothing with another sandbox
    #[schemars(extend("default" = "forked"))]
    interpreter: InterpreterChoice,
    /// A snapshot to start from, with its template, limits and variables; only `metadata` and
    /// `ttl_seconds` can be given with it
    snapshot: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum InterpreterChoice {
    #[default]
    Forked,
    Fresh,
}

/// Decodes content given as text or in base 64.
pub(crate) fn content(
    text: Option<String>,
    base64: Option<String>,
    what: &str,
) -> Result<Vec<u8>, Problem> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(base64)) => STANDARD
            .decode(base64)
            .map_err(|error| Problem::bad(format!("{what}: content_base64: {error}"))),
        _ => Err(Problem::bad(format!("{what} must have either content or content_base64"))),
    }
}

/// Translates the part of a request that every new sandbox has: template, limits and variables.
pub(crate) fn plan(
    app: &App,
    template: Option<String>,
    limits: &LimitsBody,
    env: BTreeMap<String, String>,
) -> Result<SandboxRequest, Problem> {
    let timeout = limits.wall()?;
    let limits = limits.over(&app.sessions.options().limits)?;
    Ok(SandboxRequest {
        template,
        limits: Some(limits),
        environment: env,
        timeout,
        ..SandboxRequest::default()
    })
}

/// Inputs of one sandbox: what fits into one message to the zone.
const INPUTS_MAX: usize = 16;

impl CreateSandboxBody {
    /// The inputs, some of which may be among what the operator offers.
    pub(crate) fn take_inputs(
        &mut self,
        offered: &BTreeMap<String, SharedInput>,
    ) -> Result<Vec<Input>, Problem> {
        if self.inputs.len() > INPUTS_MAX {
            return Err(Problem::bad(format!("a sandbox has at most {INPUTS_MAX} inputs")));
        }
        std::mem::take(&mut self.inputs).into_iter().map(|body| body.input(offered)).collect()
    }
}

impl InputBody {
    fn input(self, offered: &BTreeMap<String, SharedInput>) -> Result<Input, Problem> {
        let refused = |error| Problem::from(SessionError::Input(error));
        let Some(shared) = self.shared else {
            let bytes = content(self.content, self.content_base64, &self.name)?;
            return Input::from_bytes(&self.name, bytes).map_err(refused);
        };
        if self.content.is_some() || self.content_base64.is_some() {
            return Err(Problem::bad("an input has content or is shared, not both"));
        }
        let unknown = || Problem::bad(format!("this server offers no input called {shared:?}"));
        let path = offered.get(&shared).ok_or_else(unknown)?;
        Input::new(path, Some(&self.name)).map_err(refused)
    }
}

/// `POST /v1/sandboxes`
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(mut body): Json<CreateSandboxBody>,
) -> Result<Response, Problem> {
    let started = Instant::now();
    tier::check(&app, body.tier)?;
    if let Some(id) = body.snapshot.take() {
        return create_from(&app, &caller, &id, body).await;
    }
    let inputs = body.take_inputs(&app.options.inputs)?;
    let mut create = plan(&app, body.template, &body.limits, body.env)?;
    create.metadata = body.metadata;
    create.ttl = body.ttl_seconds.map(seconds).transpose()?;
    create.idle = body.idle_seconds.map(seconds).transpose()?;
    create.max_cells = body.max_cells;
    create.fresh = body.interpreter == InterpreterChoice::Fresh;
    create.inputs = inputs;
    if let Some(network) = body.network {
        create.exposure = network.exposure()?.unwrap_or_default();
        create.network = Some(network.request(&app)?);
    }
    let session = app.sessions.create(&caller.tenant, create).await?;
    app.metrics.stage("create", started.elapsed());
    let sandbox = Sandbox::full(&session.info(), &session.containment());
    Ok((StatusCode::CREATED, Answer(sandbox)).into_response())
}

/// `POST /v1/sandboxes` with a snapshot
async fn create_from(
    app: &App,
    caller: &Caller,
    id: &str,
    body: CreateSandboxBody,
) -> Result<Response, Problem> {
    let CreateSandboxBody { metadata, ttl_seconds, .. } = &body;
    let rest = body.template.is_some()
        || !body.env.is_empty()
        || body.idle_seconds.is_some()
        || body.max_cells.is_some()
        || !body.inputs.is_empty()
        || body.interpreter == InterpreterChoice::Fresh
        || body.limits != LimitsBody::default();
    if rest {
        return Err(Problem::bad("with snapshot only metadata and ttl_seconds can be given"));
    }
    let started = Instant::now();
    let snapshot = app.sessions.find_snapshot(&caller.tenant, id)?;
    let metadata = (!metadata.is_empty()).then(|| metadata.clone());
    let ttl = ttl_seconds.map(seconds).transpose()?;
    let session = app.sessions.create_from(&snapshot, metadata, ttl).await?;
    app.metrics.stage("create", started.elapsed());
    let sandbox = Sandbox::full(&session.info(), &session.containment());
    Ok((StatusCode::CREATED, Answer(sandbox)).into_response())
}

/// `GET /v1/sandboxes/{sandbox}`
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    if let Ok(session) = app.sessions.find(&caller.tenant, &id) {
        let sandbox = Sandbox::full(&session.info(), &session.containment());
        return Ok(Answer(sandbox).into_response());
    }
    let record = app.sessions.record(&caller.tenant, &id).await?;
    Ok(Answer(Sandbox::recorded(&record)).into_response())
}

/// `GET /v1/sandboxes`
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let filter = filter(&caller, query.as_deref().unwrap_or_default())?;
    let page = app.sessions.records().list(&filter).await?;
    let sandboxes = page
        .records
        .iter()
        .map(|record| match app.sessions.find(&caller.tenant, record.id.as_str()) {
            Ok(session) => Sandbox::brief(&session.info()),
            Err(_) => Sandbox::recorded(record),
        })
        .collect();
    let next_page = page.next.map(|token| token.to_string());
    Ok(Answer(SandboxList { sandboxes, next_page }).into_response())
}

/// The most sandboxes on one page.
const PAGE_MAX: usize = 100;

fn filter(caller: &Caller, query: &str) -> Result<Filter, Problem> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query)
        .map_err(|error| Problem::bad(format!("invalid query: {error}")))?;
    let tenant = Some(caller.tenant.clone());
    let mut filter = Filter { tenant, limit: PAGE_MAX, ..Filter::default() };
    for (name, value) in pairs {
        match name.as_str() {
            "state" => {
                for state in value.split(',') {
                    let state: SandboxState =
                        state.parse().map_err(|error| Problem::bad(format!("state: {error}")))?;
                    filter.states.insert(state);
                }
            }
            "template" => filter.template = Some(value),
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
                filter.limit = limit
                    .ok_or_else(|| Problem::bad(format!("limit must be from 1 to {PAGE_MAX}")))?;
            }
            "page" => {
                let page = value.parse().map_err(|_| {
                    Problem::bad("page must be the next_page of an earlier response")
                })?;
                filter.after = Some(page);
            }
            name => match name.strip_prefix("metadata.") {
                Some(key) => drop(filter.metadata.insert(key.to_owned(), value)),
                None => return Err(Problem::bad(format!("unknown query parameter {name:?}"))),
            },
        }
    }
    if filter.states.is_empty() {
        filter.states.insert(SandboxState::Running);
    }
    Ok(filter)
}

/// A longer life for a sandbox
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExtendSandbox", extend("examples" = [{"ttl_seconds": 600}]))]
pub(crate) struct ExtendSandboxBody {
    /// Its least remaining lifetime from now
    ttl_seconds: f64,
}

/// `POST /v1/sandboxes/{sandbox}/extend`
pub(crate) async fn extend(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<ExtendSandboxBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let life = seconds(body.ttl_seconds)?;
    app.sessions.set_life(&session, life, LifeChange::Extend).await?;
    Ok(Answer(Sandbox::brief(&session.info())).into_response())
}

/// `DELETE /v1/sandboxes/{sandbox}`
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let started = Instant::now();
    let session = session(&app, &caller, &id).await?;
    app.sessions.delete(session).await;
    app.metrics.stage("delete", started.elapsed());
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /v1/sandboxes/{sandbox}/usage`
pub(crate) async fn usage(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let now = Usage::from(&session.usage());
    let samples = session.samples().iter().map(Usage::from).collect();
    Ok(Answer(UsageReport { now, samples }).into_response())
}
