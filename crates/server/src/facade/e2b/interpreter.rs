//! The service for code: running it, and the contexts it runs in.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware, routing};
use serde::Deserialize;
use serde_json::{Value, json};
use silica_sessions::{CellRequest, KernelInfo};

use super::access::{Coding, Said, is_there};
use super::refusal::{Refusal, Shape, shaped};
use super::{lines, paths};
use crate::app::App;
use crate::facade::native::cells::{Leash, OnDisconnect};
use crate::http::json::Answer;

/// The one language there is.
const PYTHON: &str = "python";

type Answered = Result<Response, Refusal>;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/health", routing::get(health))
        .route("/execute", routing::post(execute))
        .route("/contexts", routing::get(list).post(create))
        .route("/contexts/{context}", routing::delete(remove))
        .route("/contexts/{context}/restart", routing::post(restart))
        .layer(middleware::from_fn_with_state(Shape::Text, shaped))
}

async fn health(State(app): State<App>, headers: HeaderMap) -> Answered {
    is_there(&app, &headers)?;
    Ok("OK".into_response())
}

fn check_language(language: Option<&str>) -> Result<(), Refusal> {
    match language {
        None | Some("" | PYTHON) => Ok(()),
        Some(other) => Err(Refusal::bad(format!(
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

/// Runs code; a client that goes away interrupts it.
async fn execute(
    State(app): State<App>,
    Coding(session): Coding,
    Said(body): Said<ExecuteBody>,
) -> Answered {
    if body.context_id.is_some() && body.language.is_some() {
        return Err(Refusal::bad("only one of context_id and language can be provided"));
    }
    check_language(body.language.as_deref())?;
    let request = CellRequest {
        code: body.code,
        kernel: body.context_id,
        environment: body.env_vars.unwrap_or_default(),
        // Their clients watch the clock, and leave.
        timeout: Some(app.sessions.options().timeout_max),
        policy: None,
    };
    let cell = session.submit(request).await?;
    let leash = Leash::new(&cell, OnDisconnect::Interrupt);
    cell.begun().await?;
    let body = Body::from_stream(lines::of(cell, leash));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

fn context(kernel: &KernelInfo) -> Value {
    json!({"id": kernel.id, "language": PYTHON, "cwd": kernel.directory})
}

async fn list(Coding(session): Coding) -> Answered {
    let contexts: Vec<Value> = session.kernels().iter().map(context).collect();
    Ok(Answer(contexts).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContextBody {
    language: Option<String>,
    cwd: Option<String>,
}

async fn create(Coding(session): Coding, Said(body): Said<ContextBody>) -> Answered {
    check_language(body.language.as_deref())?;
    let directory = body.cwd.map(|cwd| paths::absolute(&cwd));
    let kernel = session.create_kernel(directory.as_deref(), &BTreeMap::new()).await?;
    Ok(Answer(context(&kernel)).into_response())
}

async fn restart(Coding(session): Coding, Path(id): Path<String>) -> Answered {
    session.restart_kernel(&id).await?;
    Ok(StatusCode::OK.into_response())
}

async fn remove(Coding(session): Coding, Path(id): Path<String>) -> Answered {
    session.delete_kernel(&id)?;
    Ok(StatusCode::OK.into_response())
}
