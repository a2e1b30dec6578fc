//! Kernels of a sandbox.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use super::session;
use super::wire::question::{CodeCheck, CompletionList, Inspection};
use super::wire::sandbox::{Kernel, KernelList};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::Problem;
use silica_domain::KernelId;

/// A kernel to be created
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(
    rename = "CreateKernel",
    extend("examples" = [{"env": {"K": "V"}, "directory": "/workspace"}])
)]
pub(crate) struct CreateKernelBody {
    /// Variables, over those of the sandbox
    env: BTreeMap<String, String>,
    /// The directory it starts in; /workspace if left out
    directory: Option<String>,
}

/// `GET …/kernels`
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let kernels = session.kernels().iter().map(Kernel::from).collect();
    Ok(Answer(KernelList { kernels }).into_response())
}

/// `POST …/kernels`
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<CreateKernelBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let kernel = session.create_kernel(body.directory.as_deref(), &body.env).await?;
    Ok((StatusCode::CREATED, Answer(Kernel::from(&kernel))).into_response())
}

/// `GET …/kernels/{kernel}`
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path((id, kernel)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    Ok(Answer(Kernel::from(&session.kernel_info(KernelId::parse(&kernel)?)?)).into_response())
}

/// `DELETE …/kernels/{kernel}`
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path((id, kernel)): Path<(String, String)>,
) -> Result<Response, Problem> {
    session(&app, &caller, &id).await?.delete_kernel(KernelId::parse(&kernel)?)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST …/kernels/{kernel}/interrupt`
pub(crate) async fn interrupt(
    State(app): State<App>,
    caller: Caller,
    Path((id, kernel)): Path<(String, String)>,
) -> Result<Response, Problem> {
    session(&app, &caller, &id).await?.interrupt_kernel(KernelId::parse(&kernel)?)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST …/kernels/{kernel}/restart`
pub(crate) async fn restart(
    State(app): State<App>,
    caller: Caller,
    Path((id, kernel)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    session.restart_kernel(KernelId::parse(&kernel)?).await?;
    Ok(Answer(Kernel::from(&session.kernel_info(KernelId::parse(&kernel)?)?)).into_response())
}

/// Code, and a place in it
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CodeQuestion", extend("examples" = [{"code": "import math\nmath.s", "cursor": 18}]))]
pub(crate) struct QuestionBody {
    /// Python
    code: String,
    /// A position in characters; the end if left out
    cursor: Option<usize>,
    /// With `inspect`: 1 for the source, too
    #[serde(default)]
    detail: u8,
}

/// `POST …/kernels/{kernel}/complete`
pub(crate) async fn complete(
    State(app): State<App>,
    caller: Caller,
    Path((id, kernel)): Path<(String, String)>,
    Json(body): Json<QuestionBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let before: String = body.code.chars().take(body.cursor.unwrap_or(usize::MAX)).collect();
    let found = session.complete(Some(KernelId::parse(&kernel)?), &before).await?;
    let end = before.chars().count();
    let start = found.start.min(end);
    Ok(Answer(CompletionList { matches: found.matches, start, end }).into_response())
}

/// `POST …/kernels/{kernel}/inspect`
pub(crate) async fn inspect(
    State(app): State<App>,
    caller: Caller,
    Path((id, kernel)): Path<(String, String)>,
    Json(body): Json<QuestionBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let kernel = Some(KernelId::parse(&kernel)?);
    let cursor = body.cursor.unwrap_or(usize::MAX);
    let text = session.inspect(kernel, &body.code, cursor, body.detail).await?;
    Ok(Answer(Inspection { text }).into_response())
}

/// `POST …/kernels/{kernel}/check`
pub(crate) async fn check(
    State(app): State<App>,
    caller: Caller,
    Path((id, kernel)): Path<(String, String)>,
    Json(body): Json<QuestionBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let kernel = Some(KernelId::parse(&kernel)?);
    let checked = session.is_complete(kernel, &body.code).await?;
    Ok(Answer(CodeCheck::from(checked)).into_response())
}
