//! Commands: processes in a sandbox, with their input, signals and terminals.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use schemars::JsonSchema;
use serde::Deserialize;
use silica_domain::CommandId;
use silica_engine::TerminalSize;
use silica_sessions::{Command, CommandInvocation, CommandPhase, CommandRequest};

use super::cells::{After, WAIT_MAX, Wait};
use super::events::CommandEvents;
use super::wire::command::CommandList;
use super::wire::{self, Detail};
use super::{one_of, seconds, session};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::Json;
use crate::http::long_answer::long_answer;
use crate::http::problem::Problem;
use crate::http::stream;

/// A command for a shell, or a program with arguments
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(
    rename = "CreateCommand",
    transform = one_of(&[("command", "string"), ("arguments", "array")]),
    extend("examples" = [{"command": "ls -l | wc -l", "timeout_seconds": 60}])
)]
pub(crate) struct CommandBody {
    /// A line for a shell
    command: Option<String>,
    /// A program and its arguments, without a shell, instead of `command`
    #[schemars(extend("minItems" = 1))]
    arguments: Option<Vec<String>>,
    /// Variables, over those of the sandbox
    env: BTreeMap<String, String>,
    /// The directory it starts in; /workspace if left out
    directory: Option<String>,
    /// Keep its input open until it is closed; otherwise the input is empty
    stdin: bool,
    /// The wall-clock time that it may take
    timeout_seconds: Option<f64>,
    /// Respond at once, and let the command be read later
    background: bool,
    /// The size of its terminal; none if left out
    terminal: Option<TerminalBody>,
}

/// The size of a terminal
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TerminalSize", extend("examples" = [{"columns": 80, "rows": 24}]))]
pub(crate) struct TerminalBody {
    /// Its width
    columns: u16,
    /// Its height
    rows: u16,
}

impl From<TerminalBody> for TerminalSize {
    fn from(body: TerminalBody) -> Self {
        Self { columns: body.columns, rows: body.rows }
    }
}

impl CommandBody {
    pub(crate) fn request(self) -> Result<CommandRequest, Problem> {
        let line = match (self.command, self.arguments) {
            (Some(line), None) => CommandInvocation::Shell(line),
            (None, Some(arguments)) if !arguments.is_empty() => {
                CommandInvocation::Program(arguments)
            }
            _ => return Err(Problem::bad("either command or arguments is required")),
        };
        Ok(CommandRequest {
            line,
            environment: self.env,
            directory: self.directory,
            stdin: self.stdin,
            timeout: self.timeout_seconds.map(seconds).transpose()?,
            terminal: self.terminal.map(Into::into),
            tag: None,
        })
    }
}

/// `POST …/commands`
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(body): Json<CommandBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let background = body.background;
    let command = session.run_command(body.request()?).await?;
    if background {
        let shown = wire::command::Command::of(&command, Detail::Full);
        let mut response = long_answer(&app, &caller.tenant, shown).await?;
        *response.status_mut() = StatusCode::ACCEPTED;
        return Ok(response);
    }
    if stream::wanted(&headers) {
        let reader = command.log.read(0);
        let location = format!("/v1/sandboxes/{id}/commands/{}", command.id);
        let response = stream::respond(&app, &caller.tenant, reader, CommandEvents(command));
        return Ok(stream::located(response, &location));
    }
    let end = command.done().await;
    app.metrics.stage("command", end.duration);
    let shown = wire::command::Command::of(&command, Detail::Full);
    long_answer(&app, &caller.tenant, shown).await
}

/// `GET …/commands`
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let commands = session.commands();
    let brief = |command: &Arc<Command>| wire::command::Command::of(command, Detail::Brief);
    let commands = commands.iter().rev().map(brief).collect();
    long_answer(&app, &caller.tenant, CommandList { commands }).await
}

/// `GET …/commands/{command}`
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path((id, command)): Path<(String, String)>,
    query: Result<Query<Wait>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
    let command = session(&app, &caller, &id).await?.command(CommandId::parse(&command)?)?;
    if let (Some(wait), CommandPhase::Running) = (query.wait, command.phase()) {
        // The response says whether it has ended by then.
        let _ = tokio::time::timeout(seconds(wait)?.min(WAIT_MAX), command.done()).await;
    }
    let shown = wire::command::Command::of(&command, Detail::Full);
    long_answer(&app, &caller.tenant, shown).await
}

/// `GET …/commands/{command}/events`
pub(crate) async fn events(
    State(app): State<App>,
    caller: Caller,
    Path((id, command)): Path<(String, String)>,
    headers: HeaderMap,
    query: Result<Query<After>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
    let command = session(&app, &caller, &id).await?.command(CommandId::parse(&command)?)?;
    let reader = command.log.read(stream::last_event(&headers, query.after));
    Ok(stream::respond(&app, &caller.tenant, reader, CommandEvents(command)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StdinQuery {
    #[serde(default)]
    close: bool,
}

/// `POST …/commands/{command}/stdin`
pub(crate) async fn stdin(
    State(app): State<App>,
    caller: Caller,
    Path((id, command)): Path<(String, String)>,
    query: Result<Query<StdinQuery>, axum::extract::rejection::QueryRejection>,
    mut body: Body,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
    let command = session(&app, &caller, &id).await?.command(CommandId::parse(&command)?)?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::bad("the body ended before it was complete"))?;
        if let Ok(bytes) = frame.into_data() {
            app.sessions.admission().upload(&caller.tenant, bytes.len() as u64)?;
            command.write(&bytes).await?;
        }
    }
    if query.close {
        command.close_input().await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A signal for a command's whole process group
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Signal", extend("examples" = [{"signal": "TERM"}]))]
pub(crate) struct SignalBody {
    /// A name, with or without SIG, or a number
    signal: SignalChoice,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum SignalChoice {
    Name(String),
    Number(i32),
}

/// Signals by their names without SIG.
const SIGNALS: [(&str, i32); 11] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
];

impl SignalChoice {
    fn number(&self) -> Result<i32, Problem> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Name(name) => {
                let upper = name.to_ascii_uppercase();
                let short = upper.strip_prefix("SIG").unwrap_or(&upper);
                let known = SIGNALS.iter().find(|(name, _)| *name == short);
                let unknown = || Problem::bad(format!("there is no signal {name:?}"));
                known.map(|(_, number)| *number).ok_or_else(unknown)
            }
        }
    }
}

/// `POST …/commands/{command}/signal`
pub(crate) async fn signal(
    State(app): State<App>,
    caller: Caller,
    Path((id, command)): Path<(String, String)>,
    Json(body): Json<SignalBody>,
) -> Result<Response, Problem> {
    let command = session(&app, &caller, &id).await?.command(CommandId::parse(&command)?)?;
    command.signal(body.signal.number()?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST …/commands/{command}/resize`
pub(crate) async fn resize(
    State(app): State<App>,
    caller: Caller,
    Path((id, command)): Path<(String, String)>,
    Json(body): Json<TerminalBody>,
) -> Result<Response, Problem> {
    session(&app, &caller, &id).await?.command(CommandId::parse(&command)?)?.resize(body.into())?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
