//! Cells: run and wait, stream, or fetch later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use silica_sessions::{Cell, CellPhase, CellRequest};

use super::{policy, seconds, session};
use crate::app::App;
use crate::facade::native::render::{self, Detail};
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::Problem;
use crate::http::stream::{self, Told};

/// What is to be run, and how the client wants to hear of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CellBody {
    code: String,
    kernel: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    timeout_seconds: Option<f64>,
    policy: Option<String>,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    on_disconnect: OnDisconnect,
}

/// What becomes of a cell whose client has gone.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnDisconnect {
    /// It runs on.
    #[default]
    Continue,
    /// It is interrupted.
    Interrupt,
}

/// Interrupts a cell when whoever holds this is dropped before the cell has ended.
#[derive(Debug)]
pub(crate) struct Leash(Option<Arc<Cell>>);

impl Leash {
    pub(crate) fn new(cell: &Arc<Cell>, on_disconnect: OnDisconnect) -> Self {
        Self((on_disconnect == OnDisconnect::Interrupt).then(|| Arc::clone(cell)))
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        if let Some(cell) = &self.0 {
            // One that has ended needs no interrupt.
            let _ = cell.interrupt();
        }
    }
}

/// A cell as its stream tells it.
struct Teller {
    cell: Arc<Cell>,
    _leash: Leash,
}

impl Told for Teller {
    fn start(&self) -> Value {
        json!({"cell": self.cell.id, "kernel": self.cell.kernel})
    }

    fn done(&self) -> Value {
        render::cell(&self.cell, Detail::Brief)
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
    let CellBody { code, kernel, env: environment, background, on_disconnect, .. } = body;
    let request = CellRequest { code, kernel, environment, timeout, policy };
    let cell = session.submit(request).await?;
    if background {
        cell.begun().await?;
        let answer = Answer(render::cell(&cell, Detail::Full));
        return Ok((StatusCode::ACCEPTED, answer).into_response());
    }
    let leash = Leash::new(&cell, on_disconnect);
    if stream::wanted(&headers) {
        cell.begun().await?;
        let reader = cell.log.read(0);
        let place = format!("/v1/sandboxes/{id}/cells/{}", cell.id);
        return Ok(stream::located(
            stream::respond(reader, Teller { cell, _leash: leash }),
            &place,
        ));
    }
    cell.done_or_parked().await?;
    let mut leash = leash;
    leash.0 = None;
    let answer = Answer(render::cell(&cell, Detail::Full));
    // A person may take longer than a connection lasts.
    let waits = matches!(cell.phase(), CellPhase::AwaitingApproval);
    let status = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, answer).into_response())
}

/// `GET …/cells`
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let cells = session.cells();
    let cells: Vec<_> = cells.iter().rev().map(|cell| render::cell(cell, Detail::Brief)).collect();
    Ok(Answer(json!({"cells": cells})).into_response())
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
    let cell = session(&app, &caller, &id).await?.cell(&cell)?;
    if let (Some(wait), false) = (query.wait, matches!(cell.phase(), CellPhase::Done(_))) {
        // Whether it has ended by then is in the answer.
        let _ = tokio::time::timeout(seconds(wait)?.min(WAIT_MAX), cell.done()).await;
    }
    Ok(Answer(render::cell(&cell, Detail::Full)).into_response())
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
    let cell = session(&app, &caller, &id).await?.cell(&cell)?;
    let reader = cell.log.read(stream::last_event(&headers, query.after));
    Ok(stream::respond(reader, Teller { cell, _leash: Leash(None) }))
}

/// `POST …/cells/{cell}/interrupt`
pub(crate) async fn interrupt(
    State(app): State<App>,
    caller: Caller,
    Path((id, cell)): Path<(String, String)>,
) -> Result<Response, Problem> {
    session(&app, &caller, &id).await?.cell(&cell)?.interrupt()?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendBody {
    seconds: f64,
}

/// `POST …/cells/{cell}/extend`
pub(crate) async fn extend(
    State(app): State<App>,
    caller: Caller,
    Path((id, cell)): Path<(String, String)>,
    Json(body): Json<ExtendBody>,
) -> Result<Response, Problem> {
    let cell = session(&app, &caller, &id).await?.cell(&cell)?;
    let total = cell.extend(seconds(body.seconds)?)?;
    Ok(Answer(json!({"timeout_seconds": total.as_secs_f64()})).into_response())
}
