//! Single runs: code and files in, results and files out, in a sandbox of their own.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use silica_engine::GuestPath;
use silica_sessions::RunRequest;

use super::sandboxes::{content, plan};
use super::tier::{self, TierBody};
use super::wire::run::{Output, RunReport};
use super::{one_of, policy, seconds};
use crate::app::App;
use crate::facade::limits::LimitsBody;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::Problem;

/// The most bytes of output files in one response.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Code that is run once
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Run", extend("examples" = [{
    "code": "import sys\nprint(sys.argv, 6 * 7)",
    "files": [{"path": "data.csv", "content": "a,b\n1,2\n"}],
    "arguments": ["a"],
    "outputs": ["/workspace/data.csv"],
}]))]
pub(crate) struct RunBody {
    /// Python
    code: String,
    /// The template that the sandbox starts from; the server's default if left out
    template: Option<String>,
    /// What isolates the sandbox; the server's tier if left out
    tier: Option<TierBody>,
    /// The limits of the sandbox
    #[serde(default)]
    limits: LimitsBody,
    /// Variables
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// `sys.argv` after the program's name
    #[serde(default)]
    arguments: Vec<String>,
    /// The wall-clock time that it may take
    timeout_seconds: Option<f64>,
    /// `strict`, `data`, `open`, or the text of a policy file
    policy: Option<String>,
    /// Files that are written before the code starts
    #[serde(default)]
    files: Vec<FileBody>,
    /// Paths of files that are sent back, at most 16 MiB together
    #[serde(default)]
    outputs: Vec<String>,
}

/// A file with content or content_base64
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    inline,
    transform = one_of(&[("content", "string"), ("content_base64", "string")])
)]
pub(crate) struct FileBody {
    /// Its path
    path: String,
    /// Its text
    content: Option<String>,
    /// Its bytes
    #[schemars(extend("contentEncoding" = "base64"))]
    content_base64: Option<String>,
}

impl RunBody {
    /// Takes the files that are written before the code starts.
    pub(crate) fn take_files(&mut self) -> Result<Vec<(GuestPath, Vec<u8>)>, Problem> {
        given(std::mem::take(&mut self.files))
    }
}

/// Decodes files that came with a request.
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
    tier::check(&app, body.tier)?;
    let files = body.take_files()?;
    let outputs: Result<Vec<_>, _> =
        body.outputs.iter().map(|path| GuestPath::parse(path)).collect();
    let request = RunRequest {
        sandbox: plan(&app, body.template, &body.limits, body.env)?,
        code: body.code,
        arguments: body.arguments,
        timeout: body.timeout_seconds.map(seconds).transpose()?,
        policy: body.policy.as_deref().map(policy).transpose()?,
        files,
        outputs: outputs?,
        output_bytes_max: OUTPUT_BYTES_MAX,
    };
    let report = app.sessions.run(&caller.tenant, request).await?;
    let outputs = report.outputs.into_iter().map(|(path, read)| match read {
        Ok(bytes) => Output::content(path.to_string(), bytes),
        Err(error) => Output::failed(path.to_string(), error),
    });
    Ok(Answer(RunReport::of_session(&report.cell, outputs.collect())).into_response())
}
