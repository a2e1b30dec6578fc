//! Cells: run and wait, stream, or fetch later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use silica_domain::{CellId, KernelId};
use silica_engine::CellSetup;
use silica_sessions::{Cell, CellPhase, CellRequest, InterruptOnDrop};

use super::events::CellEvents;
use super::wire::cell::{CellExtended, CellList};
use super::wire::{self, Detail};
use super::{policy, seconds, session};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::long_answer::long_answer;
use crate::http::problem::Problem;
use crate::http::stream;

/// Code that is to be run
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "CreateCell",
    extend("examples" = [{"code": "print(6 * 7)", "kernel": "k1", "timeout_seconds": 30}])
)]
pub(crate) struct CellBody {
    /// Python
    code: String,
    /// The kernel; the first one if left out
    kernel: Option<String>,
    /// Variables for this cell alone
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The name of the file that the code comes from, for tracebacks; a cell that waits for a person
    /// has none
    filename: Option<String>,
    /// `sys.argv` after the program's name, from this cell on
    arguments: Option<Vec<String>>,
    /// The wall-clock time that it may take
    timeout_seconds: Option<f64>,
    /// `strict`, `data`, `open`, or the text of a policy file
    policy: Option<String>,
    /// Let `input()` ask: the event `input` says what, and `POST …/input` answers
    #[serde(default)]
    input: bool,
    /// Respond at once, and let the cell be read later
    #[serde(default)]
    background: bool,
    /// Mark the state of the sandbox first, so that the cell can be undone
    #[serde(default)]
    mark: bool,
    /// What happens to the cell when a client that waits or streams disconnects
    #[serde(default)]
    #[schemars(extend("default" = "continue"))]
    on_disconnect: OnDisconnect,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum OnDisconnect {
    #[default]
    Continue,
    Interrupt,
}

impl OnDisconnect {
    fn guard(self, cell: &Arc<Cell>) -> Option<InterruptOnDrop> {
        match self {
            Self::Continue => None,
            Self::Interrupt => Some(cell.interrupt_on_drop()),
        }
    }
}

/// `POST …/cells`
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(body): Json<CellBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let timeout = body.timeout_seconds.map(seconds).transpose()?;
    let policy = body.policy.as_deref().map(policy).transpose()?;
    let kernel = body.kernel.as_deref().map(KernelId::parse).transpose()?;
    let CellBody {
        code,
        env: environment,
        filename,
        arguments,
        input,
        background,
        mark,
        on_disconnect,
        ..
    } = body;
    let arguments = arguments.map(|arguments| {
        std::iter::once(filename.clone().unwrap_or_default()).chain(arguments).collect()
    });
    let setup = CellSetup { environment, filename, arguments, input, comm: None };
    let request = CellRequest { code: code.into(), kernel, setup, timeout, policy };
    if mark {
        app.sessions.mark(&session).await?;
    }
    let cell = session.submit(request).await?;
    if background {
        cell.begun().await?;
        let shown = wire::cell::Cell::new(&cell, Detail::Full);
        let mut response = long_answer(&app, &caller.tenant, shown).await?;
        *response.status_mut() = StatusCode::ACCEPTED;
        return Ok(response);
    }
    let interrupt = on_disconnect.guard(&cell);
    if stream::wanted(&headers) {
        cell.begun().await?;
        let reader = cell.log.read(0);
        let location = format!("/v1/sandboxes/{id}/cells/{}", cell.id);
        let response =
            stream::respond(&app, &caller.tenant, reader, CellEvents::new(cell, interrupt));
        return Ok(stream::located(response, &location));
    }
    cell.done_or_parked().await?;
    if let Some(interrupt) = interrupt {
        interrupt.disarm();
    }
    let shown = wire::cell::Cell::new(&cell, Detail::Full);
    // A person may take longer than a connection lasts.
    let waits = matches!(cell.phase(), CellPhase::AwaitingApproval);
    let mut response = long_answer(&app, &caller.tenant, shown).await?;
    *response.status_mut() = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(response)
}

/// `GET …/cells`
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let cells = session.cells();
    let brief = |cell: &Arc<Cell>| wire::cell::Cell::new(cell, Detail::Brief);
    let cells = cells.iter().rev().map(brief).collect();
    long_answer(&app, &caller.tenant, CellList { cells }).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    pub(crate) wait: Option<f64>,
}

/// The longest wait for a cell's end in one request.
pub(crate) const WAIT_MAX: Duration = Duration::from_mins(5);

/// `GET …/cells/{cell}`
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path((id, cell)): Path<(String, String)>,
    query: Result<Query<Wait>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
    let cell = session(&app, &caller, &id).await?.cell(CellId::parse(&cell)?)?;
    if let (Some(wait), false) = (query.wait, matches!(cell.phase(), CellPhase::Done(_))) {
        // The response says whether it has ended by then.
        let _ = tokio::time::timeout(seconds(wait)?.min(WAIT_MAX), cell.done()).await;
    }
    long_answer(&app, &caller.tenant, wire::cell::Cell::new(&cell, Detail::Full)).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct After {
    pub(crate) after: Option<u64>,
}

/// `GET …/cells/{cell}/events`
pub(crate) async fn events(
    State(app): State<App>,
    caller: Caller,
    Path((id, cell)): Path<(String, String)>,
    headers: HeaderMap,
    query: Result<Query<After>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
    let cell = session(&app, &caller, &id).await?.cell(CellId::parse(&cell)?)?;
    let reader = cell.log.read(stream::last_event(&headers, query.after));
    Ok(stream::respond(&app, &caller.tenant, reader, CellEvents::new(cell, None)))
}

/// `POST …/cells/{cell}/interrupt`
pub(crate) async fn interrupt(
    State(app): State<App>,
    caller: Caller,
    Path((id, cell)): Path<(String, String)>,
) -> Result<Response, Problem> {
    session(&app, &caller, &id).await?.cell(CellId::parse(&cell)?)?.interrupt()?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// More time for a cell
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExtendCell", extend("examples" = [{"seconds": 60}]))]
pub(crate) struct ExtendCellBody {
    /// The additional time
    seconds: f64,
}

/// `POST …/cells/{cell}/extend`
pub(crate) async fn extend(
    State(app): State<App>,
    caller: Caller,
    Path((id, cell)): Path<(String, String)>,
    Json(body): Json<ExtendCellBody>,
) -> Result<Response, Problem> {
    let cell = session(&app, &caller, &id).await?.cell(CellId::parse(&cell)?)?;
    let total = cell.extend(seconds(body.seconds)?)?;
    Ok(Answer(CellExtended { timeout_seconds: total.as_secs_f64() }).into_response())
}

/// A line of input
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CellInput", extend("examples" = [{"value": "yes"}]))]
pub(crate) struct InputBody {
    /// The line, without its end
    value: String,
}

/// `POST …/cells/{cell}/input`
pub(crate) async fn input(
    State(app): State<App>,
    caller: Caller,
    Path((id, cell)): Path<(String, String)>,
    Json(body): Json<InputBody>,
) -> Result<Response, Problem> {
    session(&app, &caller, &id).await?.cell(CellId::parse(&cell)?)?.input(body.value)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
