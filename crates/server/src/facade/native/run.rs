//! Code in, everything out, sandbox gone.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use silica_engine::GuestPath;
use silica_sessions::RunRequest;

use super::sandboxes::{LimitsBody, content, plan};
use super::{policy, seconds};
use crate::app::App;
use crate::facade::native::render::{self, Detail};
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::Problem;

/// How much of the wanted files fits into one answer.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunBody {
    code: String,
    template: Option<String>,
    #[serde(default)]
    limits: LimitsBody,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    arguments: Vec<String>,
    timeout_seconds: Option<f64>,
    policy: Option<String>,
    #[serde(default)]
    files: Vec<FileBody>,
    #[serde(default)]
    outputs: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileBody {
    path: String,
    content: Option<String>,
    content_base64: Option<String>,
}

impl RunBody {
    /// The files that are to be there before the code starts.
    pub(crate) fn take_files(&mut self) -> Result<Vec<(GuestPath, Vec<u8>)>, Problem> {
        given(std::mem::take(&mut self.files))
    }
}

/// Files that came with a request.
pub(crate) fn given(files: Vec<FileBody>) -> Result<Vec<(GuestPath, Vec<u8>)>, Problem> {
    let read = |file: FileBody| {
        let path = GuestPath::parse(&file.path)?;
        Ok((path, content(file.content, file.content_base64, &file.path)?))
    };
    files.into_iter().map(read).collect()
}

/// `POST /v1/run`
pub(crate) async fn run(
    State(app): State<App>,
    caller: Caller,
    Json(mut body): Json<RunBody>,
) -> Result<Response, Problem> {
    let files = body.take_files()?;
    let outputs: Result<Vec<_>, _> =
        body.outputs.iter().map(|path| GuestPath::parse(path)).collect();
    let request = RunRequest {
        create: plan(&app, body.template, &body.limits, body.env)?,
        code: body.code,
        arguments: body.arguments,
        timeout: body.timeout_seconds.map(seconds).transpose()?,
        policy: body.policy.as_deref().map(policy).transpose()?,
        files,
        outputs: outputs?,
        output_bytes_max: OUTPUT_BYTES_MAX,
    };
    let report = app.sessions.run(&caller.tenant, request).await?;
    let mut value = render::cell(&report.cell, Detail::Full);
    let outputs = report.outputs.into_iter().map(|(path, read)| match read {
        Ok(bytes) => json!({
            "path": path.to_string(),
            "size": bytes.len(),
            "content_base64": STANDARD.encode(bytes),
        }),
        Err(error) => json!({"path": path.to_string(), "error": error}),
    });
    let outputs: Vec<Value> = outputs.collect();
    if let Value::Object(map) = &mut value {
        map.insert("outputs".into(), outputs.into());
    }
    Ok(Answer(value).into_response())
}
