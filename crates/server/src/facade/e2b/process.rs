//! Commands and terminals, as `process.Process` of Connect.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{Extensions, HeaderMap};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use silica_engine::TerminalSize;
use silica_sessions::{
    Command, CommandInvocation, CommandPhase, CommandRequest, Session, SessionError,
};

use super::access::{E2bJson, EnvdSession, header};
use super::error::{E2bError, E2bResult};
use super::frames::{self, Frames};
use super::paths;
use crate::app::App;
use crate::http::in_flight::InFlight;
use crate::http::json::Answer;

mod stream;

use stream::StreamRequest;
pub(super) use stream::ping;

/// The number of SIGKILL.
const KILL: i32 = 9;

/// How long a response to SIGKILL waits for the end of the process.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

/// Returns an empty message.
fn empty() -> Response {
    Answer(json!({})).into_response()
}

#[derive(Debug, Deserialize)]
struct Config {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    envs: BTreeMap<String, String>,
    cwd: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Pty {
    size: PtySize,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PtySize {
    #[serde(default)]
    cols: u16,
    #[serde(default)]
    rows: u16,
}

impl From<Pty> for TerminalSize {
    fn from(Pty { size }: Pty) -> Self {
        Self { columns: size.cols, rows: size.rows }
    }
}

#[derive(Debug, Deserialize)]
struct StartMessage {
    process: Config,
    pty: Option<Pty>,
    tag: Option<String>,
    stdin: Option<bool>,
}

/// Selects a command.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Selector {
    pid: Option<u32>,
    tag: Option<String>,
}

impl Selector {
    /// Returns the command with this number or tag: a running one, or else the last that ran.
    fn find(&self, session: &Session) -> Result<Arc<Command>, E2bError> {
        let meant = |command: &Arc<Command>| match (self.pid, &self.tag) {
            (Some(pid), _) => command.process_id() == pid,
            (None, Some(tag)) => command.request.tag.as_ref() == Some(tag),
            (None, None) => false,
        };
        let found: Vec<_> = session.commands().into_iter().filter(meant).collect();
        let runs = |command: &&Arc<Command>| matches!(command.phase(), CommandPhase::Running);
        let best = found.iter().find(runs).or(found.last());
        best.cloned().ok_or_else(|| E2bError::missing(format!("process {self} was not found")))
    }

    fn find_running(&self, session: &Session) -> Result<Arc<Command>, E2bError> {
        let found = self.find(session)?;
        match found.phase() {
            CommandPhase::Running => Ok(found),
            CommandPhase::Done(_) => Err(E2bError::missing(format!("process {self} has ended"))),
        }
    }
}

impl std::fmt::Display for Selector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.pid, &self.tag) {
            (Some(pid), _) => write!(formatter, "with pid {pid}"),
            (None, Some(tag)) => write!(formatter, "with tag {tag:?}"),
            (None, None) => formatter.write_str("without pid and tag"),
        }
    }
}

/// Returns the client's timeout of a stream.
fn patience(headers: &HeaderMap) -> Result<Option<Duration>, E2bError> {
    let Some(text) = header(headers, "connect-timeout-ms") else { return Ok(None) };
    let millis: u64 =
        text.parse().map_err(|_| E2bError::bad("connect-timeout-ms must be a number"))?;
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}

async fn first<T: serde::de::DeserializeOwned>(
    app: &App,
    extensions: &Extensions,
    body: Body,
) -> Result<T, E2bError> {
    let mut frames = Frames::of(body, app.options.body_bytes_max, InFlight::of(extensions));
    frames.next().await?.ok_or_else(|| E2bError::bad("there is no message"))
}

/// `Start`: the command outlives its stream, but not the time its client gave it.
pub(super) async fn start(
    State(app): State<App>,
    EnvdSession(session): EnvdSession,
    headers: HeaderMap,
    extensions: Extensions,
    body: Body,
) -> E2bResult {
    let begun = Instant::now();
    let patience = patience(&headers)?;
    let message: StartMessage = first(&app, &extensions, body).await?;
    let Config { cmd, args, envs, cwd } = message.process;
    let request = CommandRequest {
        line: CommandInvocation::Program(std::iter::once(cmd).chain(args).collect()),
        environment: envs,
        directory: cwd.map(|cwd| paths::absolute(&cwd)),
        stdin: message.stdin.unwrap_or(true),
        timeout: patience,
        terminal: message.pty.map(Into::into),
        tag: message.tag,
    };
    let command = session.run_command(request).await.map_err(|error| match error {
        // A directory in which no command starts is a wrong argument, as one that does not exist.
        SessionError::File(error) => E2bError::Problem(error.into()),
        error => error.into(),
    })?;
    let reader = command.log.read(0);
    // The stream ends at the deadline, not when the command has been killed: the client disconnects
    // then.
    let deadline = patience.and_then(|patience| begun.checked_add(patience));
    let request = StreamRequest { headers, extensions };
    Ok(stream::stream(command, reader, &request, deadline))
}

#[derive(Debug, Deserialize)]
struct ConnectMessage {
    #[serde(default)]
    process: Selector,
}

/// `Connect`: the output from now on.
pub(super) async fn connect(
    State(app): State<App>,
    EnvdSession(session): EnvdSession,
    headers: HeaderMap,
    extensions: Extensions,
    body: Body,
) -> E2bResult {
    let message: ConnectMessage = first(&app, &extensions, body).await?;
    let command = message.process.find(&session)?;
    let deadline = patience(&headers)?.and_then(|patience| Instant::now().checked_add(patience));
    let reader = command.log.read(u64::MAX);
    let request = StreamRequest { headers, extensions };
    Ok(stream::stream(command, reader, &request, deadline))
}

/// `List`: the commands that run.
pub(super) async fn list(EnvdSession(session): EnvdSession) -> E2bResult {
    let runs = |command: &Arc<Command>| matches!(command.phase(), CommandPhase::Running);
    let processes: Vec<Value> =
        session.commands().iter().filter(|command| runs(command)).map(|it| shown(it)).collect();
    Ok(Answer(json!({"processes": processes})).into_response())
}

fn shown(command: &Command) -> Value {
    let request = &command.request;
    let (program, arguments) = match &request.line {
        CommandInvocation::Shell(line) => (line.as_str(), &[][..]),
        CommandInvocation::Program(all) => {
            all.split_first().map_or(("", &[][..]), |(it, rest)| (it, rest))
        }
    };
    let mut config = json!({"cmd": program, "args": arguments, "envs": request.environment});
    config["cwd"] = request.directory.as_deref().unwrap_or(paths::HOME).into();
    let mut process = json!({"config": config, "pid": command.process_id()});
    if let Some(tag) = &request.tag {
        process["tag"] = tag.as_str().into();
    }
    process
}

#[derive(Debug, Deserialize)]
struct Input {
    stdin: Option<String>,
    pty: Option<String>,
}

impl Input {
    fn bytes(&self) -> Result<Vec<u8>, E2bError> {
        let text = self.stdin.as_ref().or(self.pty.as_ref());
        let text = text.ok_or_else(|| E2bError::bad("there is no input"))?;
        STANDARD.decode(text).map_err(|_| E2bError::bad("the input is not base 64"))
    }
}

async fn write(
    app: &App,
    session: &Session,
    command: &Command,
    input: &Input,
) -> Result<(), E2bError> {
    let bytes = input.bytes()?;
    app.sessions.admission().upload(session.tenant(), bytes.len() as u64)?;
    Ok(command.write(&bytes).await?)
}

#[derive(Debug, Deserialize)]
pub(super) struct SendInput {
    #[serde(default)]
    process: Selector,
    input: Input,
}

/// `SendInput`
pub(super) async fn send_input(
    State(app): State<App>,
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<SendInput>,
) -> E2bResult {
    let command = message.process.find_running(&session)?;
    write(&app, &session, &command, &message.input).await?;
    Ok(empty())
}

/// One message of a stream of input.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputMessage {
    start: Option<ConnectMessage>,
    data: Option<DataMessage>,
}

#[derive(Debug, Deserialize)]
struct DataMessage {
    input: Input,
}

/// `StreamInput`: which command, then what it reads, to the end of the stream.
pub(super) async fn stream_input(
    State(app): State<App>,
    EnvdSession(session): EnvdSession,
    extensions: Extensions,
    body: Body,
) -> E2bResult {
    let mut frames = Frames::of(body, app.options.body_bytes_max, InFlight::of(&extensions));
    let mut command = None;
    while let Some(message) = frames.next::<InputMessage>().await? {
        if let Some(start) = message.start {
            command = Some(start.process.find_running(&session)?);
        }
        if let Some(data) = message.data {
            let command =
                command.as_ref().ok_or_else(|| E2bError::bad("input before its process"))?;
            write(&app, &session, command, &data.input).await?;
        }
    }
    let mut answer = Vec::new();
    frames::message(&mut answer, &json!({}));
    frames::end(&mut answer);
    let whole = futures_util::stream::iter([Ok::<_, std::convert::Infallible>(answer.into())]);
    Ok(frames::stream(whole))
}

#[derive(Debug, Deserialize)]
pub(super) struct SendSignal {
    #[serde(default)]
    process: Selector,
    signal: String,
}

/// `SendSignal`
pub(super) async fn send_signal(
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<SendSignal>,
) -> E2bResult {
    let number = match message.signal.as_str() {
        "SIGNAL_SIGTERM" => 15,
        "SIGNAL_SIGKILL" => KILL,
        other => return Err(E2bError::bad(format!("there is no signal {other:?}"))),
    };
    let command = message.process.find_running(&session)?;
    command.signal(number).await?;
    if number == KILL {
        // A client that has killed a process expects it to be gone. Its end is the kernel's business and
        // takes moments; the wait has a bound for a sandbox that is stuck.
        let _ = tokio::time::timeout(KILL_PATIENCE, command.done()).await;
    }
    Ok(empty())
}

#[derive(Debug, Deserialize)]
pub(super) struct CloseStdin {
    #[serde(default)]
    process: Selector,
}

/// `CloseStdin`
pub(super) async fn close_stdin(
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<CloseStdin>,
) -> E2bResult {
    message.process.find_running(&session)?.close_input().await?;
    Ok(empty())
}

#[derive(Debug, Deserialize)]
pub(super) struct Update {
    #[serde(default)]
    process: Selector,
    pty: Option<Pty>,
}

/// `Update`: the size of a terminal.
pub(super) async fn update(
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<Update>,
) -> E2bResult {
    let command = message.process.find_running(&session)?;
    if let Some(pty) = message.pty {
        command.resize(pty.into())?;
    }
    Ok(empty())
}
