//! Branching sandboxes: copies that go on from the same state, and states that are kept.

use std::collections::BTreeMap;
use std::time::Instant;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use silica_domain::{BranchOptions, Conflict, Randomness};
use silica_sessions::{ForkRequest, Forked, UndoTo};

use super::wire::branching::{ForkedSandboxes, LeftBehindItem, Mark, Snapshot, SnapshotList};
use super::wire::sandbox::Sandbox;
use super::{seconds, session};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::Problem;

/// What happens to something that would make a copy wrong
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum ConflictChoice {
    #[default]
    Refuse,
    Leave,
}

impl From<ConflictChoice> for Conflict {
    fn from(choice: ConflictChoice) -> Self {
        match choice {
            ConflictChoice::Refuse => Self::Refuse,
            ConflictChoice::Leave => Self::LeaveBehind,
        }
    }
}

/// Copies of a live sandbox
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ForkSandbox", extend("examples" = [{
    "count": 3, "metadata": {"branch": "b"}, "ttl_seconds": 600, "threads": "leave",
}]))]
pub(crate) struct ForkSandboxBody {
    /// How many copies are made, from 1 to 32; 1 if left out
    count: Option<usize>,
    /// Metadata of the copies; that of the sandbox if left out
    metadata: Option<BTreeMap<String, String>>,
    /// Their lifetime; the one that the sandbox was made with if left out
    ttl_seconds: Option<f64>,
    /// `refuse` threads that would not exist in a copy, or `leave` them behind
    #[schemars(extend("default" = "refuse"))]
    threads: ConflictChoice,
    /// `refuse` memory that is shared between processes, or `leave` the sharing behind: a copy gets its own
    #[schemars(extend("default" = "refuse"))]
    shared: ConflictChoice,
    /// `refuse` while other processes run in the sandbox, or `leave` them behind
    #[schemars(extend("default" = "refuse"))]
    processes: ConflictChoice,
    /// Whether the copies draw the same random numbers as the sandbox
    same_random: bool,
}

impl From<ForkSandboxBody> for BranchOptions {
    fn from(body: ForkSandboxBody) -> Self {
        Self {
            threads: body.threads.into(),
            shared: body.shared.into(),
            processes: body.processes.into(),
            randomness: if body.same_random { Randomness::Keep } else { Randomness::Renew },
        }
    }
}

/// `POST /v1/sandboxes/{sandbox}/fork`
pub(crate) async fn fork(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(mut body): Json<ForkSandboxBody>,
) -> Result<Response, Problem> {
    let started = Instant::now();
    let session = session(&app, &caller, &id).await?;
    let request = ForkRequest {
        count: body.count,
        metadata: body.metadata.take(),
        ttl: body.ttl_seconds.map(seconds).transpose()?,
        options: body.into(),
    };
    let Forked { sessions, left_behind } = app.sessions.fork(&session, request).await?;
    app.metrics.stage("fork", started.elapsed());
    let full = sessions.iter().map(|twin| Sandbox::full(&twin.info(), &twin.containment()));
    let left_behind = left_behind.iter().map(LeftBehindItem::from).collect();
    let forked = ForkedSandboxes { sandboxes: full.collect(), left_behind };
    Ok((StatusCode::CREATED, Answer(forked)).into_response())
}

/// A state of a sandbox to be kept
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CreateSnapshot", extend("examples" = [{"name": "data loaded"}]))]
pub(crate) struct SnapshotBody {
    /// A name for its owner
    name: Option<String>,
}

/// `POST /v1/sandboxes/{sandbox}/snapshots`
pub(crate) async fn snapshot(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<SnapshotBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let kept = app.sessions.snapshot(&session, body.name, BranchOptions::default()).await?;
    Ok((StatusCode::CREATED, Answer(Snapshot::from(&*kept))).into_response())
}

/// `GET /v1/snapshots`
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Response {
    let snapshots = app.sessions.snapshots(&caller.tenant);
    let snapshots = snapshots.iter().map(|snapshot| Snapshot::from(&**snapshot)).collect();
    Answer(SnapshotList { snapshots }).into_response()
}

/// `GET /v1/snapshots/{snapshot}`
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let snapshot = app.sessions.find_snapshot(&caller.tenant, &id)?;
    Ok(Answer(Snapshot::from(&*snapshot)).into_response())
}

/// `DELETE /v1/snapshots/{snapshot}`
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    app.sessions.delete_snapshot(&caller.tenant, &id)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /v1/sandboxes/{sandbox}/marks`
pub(crate) async fn mark(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let mark = app.sessions.mark(&session).await?;
    let mark = Mark { id: mark.id(), cells: mark.cells() };
    Ok((StatusCode::CREATED, Answer(mark)).into_response())
}

/// What a sandbox is set back to: a mark, or the newest mark before its last cells
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Undo", extend("examples" = [{"cells": 1}]))]
pub(crate) struct UndoBody {
    /// How many cells are undone at least; 1 if nothing is given
    cells: Option<u64>,
    /// The id of a mark, instead
    mark: Option<String>,
}

/// `POST /v1/sandboxes/{sandbox}/undo`
pub(crate) async fn undo(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<UndoBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let to = match (body.cells, body.mark) {
        (Some(_), Some(_)) => return Err(Problem::bad("give either cells or mark, not both")),
        (cells, None) => UndoTo::Cells(cells.unwrap_or(1)),
        (None, Some(mark)) => UndoTo::Mark(mark),
    };
    let mark = app.sessions.undo(&session, to).await?;
    Ok(Answer(Mark { id: mark.id(), cells: mark.cells() }).into_response())
}
