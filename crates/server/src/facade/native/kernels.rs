//! Kernels of a sandbox.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::session;
use crate::app::App;
use crate::facade::native::render;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::Problem;

/// What a new kernel is to be.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CreateBody {
    env: BTreeMap<String, String>,
    directory: Option<String>,
}

/// `GET …/kernels`
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let kernels: Vec<_> = session.kernels().iter().map(render::kernel).collect();
    Ok(Answer(json!({"kernels": kernels})).into_response())
}

/// `POST …/kernels`
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<CreateBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let kernel = session.create_kernel(body.directory.as_deref(), &body.env).await?;
    Ok((StatusCode::CREATED, Answer(render::kernel(&kernel))).into_response())
}

/// `GET …/kernels/{kernel}`
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path((id, kernel)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    Ok(Answer(render::kernel(&session.kernel_info(&kernel)?)).into_response())
}

/// `DELETE …/kernels/{kernel}`
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path((id, kernel)): Path<(String, String)>,
) -> Result<Response, Problem> {
    session(&app, &caller, &id).await?.delete_kernel(&kernel)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST …/kernels/{kernel}/interrupt`
pub(crate) async fn interrupt(
    State(app): State<App>,
    caller: Caller,
    Path((id, kernel)): Path<(String, String)>,
) -> Result<Response, Problem> {
    session(&app, &caller, &id).await?.interrupt_kernel(&kernel)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST …/kernels/{kernel}/restart`
pub(crate) async fn restart(
    State(app): State<App>,
    caller: Caller,
    Path((id, kernel)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    session.restart_kernel(&kernel).await?;
    Ok(Answer(render::kernel(&session.kernel_info(&kernel)?)).into_response())
}
