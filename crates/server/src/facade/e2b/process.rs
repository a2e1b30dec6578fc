//! Commands and terminals, as `process.Process` of Connect.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use silica_engine::TerminalSize;
use silica_sessions::{Command, CommandPhase, CommandRequest, Session, What};

use super::access::{Inside, Said, header};
use super::frames::{self, Frames};
use super::paths;
use super::refusal::Refusal;
use crate::app::App;
use crate::http::json::Answer;

mod telling;

pub(super) use telling::ping;

type Answered = Result<Response, Refusal>;

/// The answer to a call that has nothing to say.
fn nothing() -> Response {
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

/// Which command is meant.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Selector {
    pid: Option<u32>,
    tag: Option<String>,
}

impl Selector {
    /// The command that has this number or tag: one that runs, or else the last that did.
    fn find(&self, session: &Session) -> Result<Arc<Command>, Refusal> {
        let meant = |command: &Arc<Command>| match (self.pid, &self.tag) {
            (Some(pid), _) => command.process_id() == pid,
            (None, Some(tag)) => command.request.tag.as_ref() == Some(tag),
            (None, None) => false,
        };
        let found: Vec<_> = session.commands().into_iter().filter(meant).collect();
        let runs = |command: &&Arc<Command>| matches!(command.phase(), CommandPhase::Running);
        let best = found.iter().find(runs).or(found.last());
        best.cloned().ok_or_else(|| Refusal::missing(format!("process {self} was not found")))
    }

    fn find_running(&self, session: &Session) -> Result<Arc<Command>, Refusal> {
        let found = self.find(session)?;
        match found.phase() {
            CommandPhase::Running => Ok(found),
            CommandPhase::Done(_) => Err(Refusal::missing(format!("process {self} has ended"))),
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

/// How long a client gives a stream; `None` for as long as it takes.
fn patience(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    let Some(text) = header(headers, "connect-timeout-ms") else { return Ok(None) };
    let millis: u64 = text.parse().map_err(|_| Refusal::bad("connect-timeout-ms is no number"))?;
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}

async fn first<T: serde::de::DeserializeOwned>(app: &App, body: Body) -> Result<T, Refusal> {
    let mut frames = Frames::of(body, app.options.body_bytes_max);
    frames.next().await?.ok_or_else(|| Refusal::bad("there is no message"))
}

/// `Start`: the command outlives its stream, but not the time its client gave it.
pub(super) async fn start(
    State(app): State<App>,
    Inside(session): Inside,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let (begun, patience) = (Instant::now(), patience(&headers)?);
    let message: StartMessage = first(&app, body).await?;
    let Config { cmd, args, envs, cwd } = message.process;
    let request = CommandRequest {
        what: What::Program(std::iter::once(cmd).chain(args).collect()),
        environment: envs,
        directory: cwd.map(|cwd| paths::absolute(&cwd)),
        stdin: message.stdin.unwrap_or(true),
        timeout: patience,
        terminal: message.pty.map(Into::into),
        tag: message.tag,
    };
    let command = session.run_command(request).await?;
    let reader = command.log.read(0);
    // Told when it is, and not when the command has ended of it: the client is about to leave.
    let deadline = patience.and_then(|patience| begun.checked_add(patience));
    Ok(telling::stream(command, reader, &headers, deadline))
}

#[derive(Debug, Deserialize)]
struct ConnectMessage {
    #[serde(default)]
    process: Selector,
}

/// `Connect`: what the command says from now on.
pub(super) async fn connect(
    State(app): State<App>,
    Inside(session): Inside,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let message: ConnectMessage = first(&app, body).await?;
    let command = message.process.find(&session)?;
    let deadline = patience(&headers)?.and_then(|patience| Instant::now().checked_add(patience));
    let reader = command.log.read(u64::MAX);
    Ok(telling::stream(command, reader, &headers, deadline))
}

/// `List`: the commands that run.
pub(super) async fn list(Inside(session): Inside) -> Answered {
    let runs = |command: &Arc<Command>| matches!(command.phase(), CommandPhase::Running);
    let processes: Vec<Value> =
        session.commands().iter().filter(|command| runs(command)).map(|it| shown(it)).collect();
    Ok(Answer(json!({"processes": processes})).into_response())
}

fn shown(command: &Command) -> Value {
    let request = &command.request;
    let (program, arguments) = match &request.what {
        What::Line(line) => (line.as_str(), &[][..]),
        What::Program(all) => all.split_first().map_or(("", &[][..]), |(it, rest)| (it, rest)),
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
    fn bytes(&self) -> Result<Vec<u8>, Refusal> {
        let text = self.stdin.as_ref().or(self.pty.as_ref());
        let text = text.ok_or_else(|| Refusal::bad("there is no input"))?;
        STANDARD.decode(text).map_err(|_| Refusal::bad("the input is not base 64"))
    }
}

async fn write(
    app: &App,
    session: &Session,
    command: &Command,
    input: &Input,
) -> Result<(), Refusal> {
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
    Inside(session): Inside,
    Said(said): Said<SendInput>,
) -> Answered {
    let command = said.process.find_running(&session)?;
    write(&app, &session, &command, &said.input).await?;
    Ok(nothing())
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

/// `StreamInput`: which command, then what it reads, until the client has said all.
pub(super) async fn stream_input(
    State(app): State<App>,
    Inside(session): Inside,
    body: Body,
) -> Answered {
    let mut frames = Frames::of(body, app.options.body_bytes_max);
    let mut command = None;
    while let Some(message) = frames.next::<InputMessage>().await? {
        if let Some(start) = message.start {
            command = Some(start.process.find_running(&session)?);
        }
        if let Some(data) = message.data {
            let command =
                command.as_ref().ok_or_else(|| Refusal::bad("input before its process"))?;
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
pub(super) async fn send_signal(Inside(session): Inside, Said(said): Said<SendSignal>) -> Answered {
    let number = match said.signal.as_str() {
        "SIGNAL_SIGTERM" => 15,
        "SIGNAL_SIGKILL" => 9,
        other => return Err(Refusal::bad(format!("there is no signal {other:?}"))),
    };
    said.process.find_running(&session)?.signal(number).await?;
    Ok(nothing())
}

#[derive(Debug, Deserialize)]
pub(super) struct CloseStdin {
    #[serde(default)]
    process: Selector,
}

/// `CloseStdin`
pub(super) async fn close_stdin(Inside(session): Inside, Said(said): Said<CloseStdin>) -> Answered {
    said.process.find_running(&session)?.close_input().await?;
    Ok(nothing())
}

#[derive(Debug, Deserialize)]
pub(super) struct Update {
    #[serde(default)]
    process: Selector,
    pty: Option<Pty>,
}

/// `Update`: the size of a terminal.
pub(super) async fn update(Inside(session): Inside, Said(said): Said<Update>) -> Answered {
    let command = said.process.find_running(&session)?;
    if let Some(pty) = said.pty {
        command.resize(pty.into())?;
    }
    Ok(nothing())
}
