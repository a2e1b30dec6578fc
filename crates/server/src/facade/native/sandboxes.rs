//! Sandboxes: making, finding, keeping, ending.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;
use silica_domain::LimitValues;
use silica_engine::Input;
use silica_sessions::{Create, LifeChange, SessionError};
use silica_store::sandboxes::{Filter, State as SandboxState};

use super::{seconds, session};
use crate::app::{App, SharedInput};
use crate::facade::native::render;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::{Code, Problem};

/// Limits as clients write them; what is not said is the server's default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsBody {
    memory_bytes: Option<u64>,
    disk_bytes: Option<u64>,
    cpus: Option<f64>,
    cpu_seconds: Option<f64>,
    wall_seconds: Option<f64>,
    processes: Option<u32>,
    open_files: Option<u32>,
    file_bytes: Option<u64>,
    output_bytes: Option<u64>,
    results: Option<u32>,
    result_bytes: Option<u64>,
}

impl LimitsBody {
    pub(crate) fn over(&self, default: &LimitValues) -> Result<LimitValues, Problem> {
        let memory_bytes = self.memory_bytes.unwrap_or(default.memory_bytes);
        // Files are kept in memory: less of it means less room for them, unless somebody said how much.
        let disk_bytes = self.disk_bytes.unwrap_or(default.disk_bytes.min(memory_bytes / 2));
        let cpu_millis = match self.cpus {
            None => default.cpu_millis,
            Some(cpus) if cpus.is_finite() && (0.0..=1e6).contains(&cpus) => {
                (cpus * 1000.0).round() as u32
            }
            Some(cpus) => {
                return Err(Problem::new(Code::BadLimit, format!("{cpus} is no number of cpus")));
            }
        };
        let time = |asked: Option<f64>, default| asked.map_or(Ok(default), seconds);
        Ok(LimitValues {
            memory_bytes,
            disk_bytes,
            cpu_millis,
            cpu: time(self.cpu_seconds, default.cpu)?,
            wall: time(self.wall_seconds, default.wall)?,
            processes: self.processes.unwrap_or(default.processes),
            open_files: self.open_files.unwrap_or(default.open_files),
            file_bytes: self.file_bytes.unwrap_or(default.file_bytes.max(disk_bytes)),
            output_bytes: self.output_bytes.unwrap_or(default.output_bytes),
            results: self.results.unwrap_or(default.results),
            result_bytes: self.result_bytes.unwrap_or(default.result_bytes),
        })
    }
}

/// A read-only input: its content, or the name of something the operator offers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InputBody {
    name: String,
    content: Option<String>,
    content_base64: Option<String>,
    shared: Option<String>,
}

/// What a sandbox is to be.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CreateBody {
    template: Option<String>,
    limits: LimitsBody,
    env: BTreeMap<String, String>,
    metadata: BTreeMap<String, String>,
    ttl_seconds: Option<f64>,
    idle_seconds: Option<f64>,
    max_cells: Option<u64>,
    inputs: Vec<InputBody>,
    interpreter: Interpreter,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Interpreter {
    #[default]
    Forked,
    Fresh,
}

/// Content given as text or in base 64.
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
        _ => Err(Problem::bad(format!("{what} needs either content or content_base64"))),
    }
}

/// Checks what a client wants, and puts its inputs where the engine finds them.
pub(crate) fn plan(
    app: &App,
    template: Option<String>,
    limits: &LimitsBody,
    env: BTreeMap<String, String>,
) -> Result<Create, Problem> {
    let timeout = limits.wall_seconds.map(seconds).transpose()?;
    let limits = limits.over(&app.sessions.options().limits)?;
    Ok(Create { template, limits: Some(limits), environment: env, timeout, ..Create::default() })
}

/// Inputs of one sandbox: what fits into one message to the zone.
const INPUTS_MAX: usize = 16;

impl CreateBody {
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
    Json(mut body): Json<CreateBody>,
) -> Result<Response, Problem> {
    let started = Instant::now();
    let inputs = body.take_inputs(&app.options.inputs)?;
    let mut create = plan(&app, body.template, &body.limits, body.env)?;
    create.metadata = body.metadata;
    create.ttl = body.ttl_seconds.map(seconds).transpose()?;
    create.idle = body.idle_seconds.map(seconds).transpose()?;
    create.max_cells = body.max_cells;
    create.fresh = body.interpreter == Interpreter::Fresh;
    create.inputs = inputs;
    let session = app.sessions.create(&caller.tenant, create).await?;
    app.metrics.stage("create", started.elapsed());
    let sandbox = render::sandbox(&session.info(), Some(session.containment()));
    Ok((StatusCode::CREATED, Answer(sandbox)).into_response())
}

/// `GET /v1/sandboxes/{sandbox}`
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    if let Ok(session) = app.sessions.find(&caller.tenant, &id) {
        let sandbox = render::sandbox(&session.info(), Some(session.containment()));
        return Ok(Answer(sandbox).into_response());
    }
    let record = app.sessions.record(&caller.tenant, &id).await?;
    Ok(Answer(render::record(&record)).into_response())
}

/// `GET /v1/sandboxes`
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let filter = filter(&caller, query.as_deref().unwrap_or_default())?;
    let page = app.sessions.store().sandboxes().list(&filter).await?;
    let sandboxes: Vec<_> = page
        .records
        .iter()
        .map(|record| match app.sessions.find(&caller.tenant, record.id.as_str()) {
            Ok(session) => render::sandbox(&session.info(), None),
            Err(_) => render::record(record),
        })
        .collect();
    let next = page.next.map(|token| token.to_string());
    Ok(Answer(json!({"sandboxes": sandboxes, "next_page": next})).into_response())
}

/// The most sandboxes on one page.
const PAGE_MAX: usize = 100;

fn filter(caller: &Caller, query: &str) -> Result<Filter, Problem> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query)
        .map_err(|error| Problem::bad(format!("the query cannot be read: {error}")))?;
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
                let page = value.parse().map_err(|_| Problem::bad("page is not from next_page"))?;
                filter.after = Some(page);
            }
            name => match name.strip_prefix("metadata.") {
                Some(key) => drop(filter.metadata.insert(key.to_owned(), value)),
                None => return Err(Problem::bad(format!("there is no filter called {name:?}"))),
            },
        }
    }
    if filter.states.is_empty() {
        filter.states.insert(SandboxState::Running);
    }
    Ok(filter)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendBody {
    ttl_seconds: f64,
}

/// `POST /v1/sandboxes/{sandbox}/extend`
pub(crate) async fn extend(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<ExtendBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let life = seconds(body.ttl_seconds)?;
    app.sessions.set_life(&session, life, LifeChange::Extend).await?;
    Ok(Answer(render::sandbox(&session.info(), None)).into_response())
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
    let now = render::sample(&session.usage());
    let samples: Vec<_> = session.samples().iter().map(render::sample).collect();
    Ok(Answer(json!({"now": now, "samples": samples})).into_response())
}
