//! Single runs: code and files in, results and files out, in a sandbox of their own.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use silica_engine::GuestPath;
use silica_sessions::{Cell, RunEnd, RunRequest};
use silica_store::SandboxId;

use super::network::NetworkBody;
use super::sandboxes::{content, plan};
use super::tier::{self, TierBody};
use super::wire::run::{Output, RunReport};
use super::{one_of, policy, seconds};
use crate::app::App;
use crate::facade::limits::LimitsBody;
use crate::http::auth::Caller;
use crate::http::json::Json;
use crate::http::long_answer::{Holding, long_answer};
use crate::http::problem::Problem;
use crate::http::stream;

/// The most bytes of output files in one response.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The most files that come with a request. An archive holds more.
const FILES_MAX: usize = 1000;

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
    /// The name of the file that the code comes from, for tracebacks and `sys.argv[0]`
    filename: Option<String>,
    /// `sys.argv` after the program's name
    #[serde(default)]
    arguments: Vec<String>,
    /// The wall-clock time that it may take
    timeout_seconds: Option<f64>,
    /// `strict`, `data`, `open`, or the text of a policy file
    policy: Option<String>,
    /// The network of the sandbox; none if left out
    network: Option<NetworkBody>,
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
    if files.len() > FILES_MAX {
        return Err(Problem::bad(format!("files must have at most {FILES_MAX} entries")));
    }
    files.into_iter().map(read).collect()
}

/// Answers for a run that waits for a person: with its cell, and where its result will be.
async fn waits(
    app: &App,
    caller: &Caller,
    sandbox: &SandboxId,
    cell: &Cell,
) -> Result<Response, Problem> {
    let value = RunReport::of_waiting(cell, sandbox.to_string());
    let mut response = long_answer(app, &caller.tenant, value).await?;
    *response.status_mut() = StatusCode::ACCEPTED;
    let location = format!("/v1/sandboxes/{sandbox}/cells/{}", cell.id);
    Ok(stream::located(response, &location))
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
    let mut sandbox = plan(&app, body.template, &body.limits, body.env)?;
    if let Some(network) = body.network {
        sandbox.network = Some(network.request(&app)?);
    }
    let request = RunRequest {
        sandbox,
        code: body.code,
        filename: body.filename,
        arguments: body.arguments,
        timeout: body.timeout_seconds.map(seconds).transpose()?,
        policy: body.policy.as_deref().map(policy).transpose()?,
        files,
        outputs: outputs?,
        output_bytes_max: OUTPUT_BYTES_MAX,
    };
    let report = match app.sessions.run(&caller.tenant, request).await? {
        RunEnd::Done(report) => report,
        RunEnd::Waits(sandbox, cell) => return waits(&app, &caller, &sandbox, &cell).await,
    };
    let held = report.held;
    let outputs = report.outputs.into_iter().map(|(path, read)| match read {
        Ok(bytes) => Output::content(path.to_string(), bytes),
        Err(error) => Output::failed(path.to_string(), error),
    });
    let value = RunReport::of_session(&report.cell, outputs.collect());
    long_answer(&app, &caller.tenant, Holding { value, _held: held }).await
}
