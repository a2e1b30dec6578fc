//! The service for code: running it, and the contexts it runs in.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Extensions, HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::{Router, middleware, routing};
use serde::Deserialize;
use serde_json::{Value, json};
use silica_domain::KernelId;
use silica_engine::CellSetup;
use silica_sessions::{CellRequest, KernelInfo, SessionError};

use super::access::{E2bJson, InterpreterSession, is_there};
use super::error::{E2bError, E2bResult, ErrorShape};
use super::{lines, paths};
use crate::app::App;
use crate::http::break_off::BreakOff;
use crate::http::dialect::render_errors;
use crate::http::json::Answer;
use crate::http::stream::LongEntry;

/// The only language.
const PYTHON: &str = "python";

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/health", routing::get(health))
        .route("/execute", routing::post(execute))
        .route("/contexts", routing::get(list).post(create))
        .route("/contexts/{context}", routing::delete(remove))
        .route("/contexts/{context}/restart", routing::post(restart))
        .layer(middleware::from_fn_with_state(ErrorShape::Text, render_errors::<ErrorShape>))
}

async fn health(State(app): State<App>, headers: HeaderMap) -> E2bResult {
    is_there(&app, &headers)?;
    Ok("OK".into_response())
}

fn check_language(language: Option<&str>) -> Result<(), E2bError> {
    match language {
        None | Some("" | PYTHON) => Ok(()),
        Some(other) => Err(E2bError::bad(format!(
            "language {other} is not supported: the template of this sandbox has {PYTHON} only"
        ))),
    }
}

#[derive(Debug, Deserialize)]
struct ExecuteBody {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

/// Runs code; a client that disconnects interrupts it.
async fn execute(
    State(app): State<App>,
    InterpreterSession(session): InterpreterSession,
    extensions: Extensions,
    E2bJson(body): E2bJson<ExecuteBody>,
) -> E2bResult {
    if body.context_id.is_some() && body.language.is_some() {
        return Err(E2bError::bad("only one of context_id and language can be provided"));
    }
    check_language(body.language.as_deref())?;
    let kernel = body.context_id.as_deref().map(KernelId::parse).transpose()?;
    let request = CellRequest {
        code: body.code.into(),
        kernel,
        setup: CellSetup { environment: body.env_vars.unwrap_or_default(), ..CellSetup::default() },
        // E2B's clients keep the time themselves and disconnect.
        timeout: Some(app.sessions.options().timeout_max),
        policy: None,
    };
    let cell = session.submit(request).await?;
    let guard = cell.interrupt_on_drop();
    cell.begun().await?;
    let long = LongEntry::new(&app, session.tenant());
    let body = Body::from_stream(lines::of(cell, guard, long, BreakOff::of(&extensions)));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

fn context(kernel: &KernelInfo) -> Value {
    json!({"id": kernel.id.to_string(), "language": PYTHON, "cwd": kernel.directory})
}

async fn list(InterpreterSession(session): InterpreterSession) -> E2bResult {
    let contexts: Vec<Value> = session.kernels().iter().map(context).collect();
    Ok(Answer(contexts).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContextBody {
    language: Option<String>,
    cwd: Option<String>,
}

async fn create(
    InterpreterSession(session): InterpreterSession,
    E2bJson(body): E2bJson<ContextBody>,
) -> E2bResult {
    check_language(body.language.as_deref())?;
    let directory = body.cwd.map(|cwd| paths::absolute(&cwd));
    let created = session.create_kernel(directory.as_deref(), &BTreeMap::new()).await;
    let kernel = created.map_err(|error| match error {
        SessionError::File(error) => {
            E2bError::bad(format!("Failed to set working directory: {error}"))
        }
        error => error.into(),
    })?;
    Ok(Answer(context(&kernel)).into_response())
}

async fn restart(
    InterpreterSession(session): InterpreterSession,
    Path(id): Path<String>,
) -> E2bResult {
    session.restart_kernel(KernelId::parse(&id)?).await?;
    Ok(StatusCode::OK.into_response())
}

async fn remove(
    InterpreterSession(session): InterpreterSession,
    Path(id): Path<String>,
) -> E2bResult {
    session.delete_kernel(KernelId::parse(&id)?)?;
    Ok(StatusCode::OK.into_response())
}
