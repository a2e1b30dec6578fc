//! Commands.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use silica_engine::HeadTail;
use silica_sessions::CommandPhase;

use super::{Detail, Moment, millis, promised};
use crate::http::long_answer::LongText;
use crate::http::payload::KeptText;

/// A command
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("examples" = [{
    "id": "p1", "command": "echo hi", "process_id": 7,
    "created_at": "2026-01-01T00:00:00.000000Z", "state": "done", "outcome": "exited",
    "exit_code": 0, "signal": null, "duration_ms": 2.5, "stdout": "hi\n", "stderr": "",
    "truncated": {"stdout": 0, "stderr": 0, "by_budget": false},
}]))]
#[expect(clippy::struct_field_names, reason = "the names are those of the API")]
pub(crate) struct Command {
    /// The command's id
    #[schemars(regex(pattern = "^p"))]
    id: String,
    /// What was asked for
    command: String,
    /// Its process, as the sandbox sees it
    #[schemars(with = "Option<u32>")]
    process_id: u32,
    /// When it was started
    created_at: Moment,
    /// The command's progress; the fields from `outcome` on are present when it is `done`
    #[schemars(extend("enum" = ["running", "done"]))]
    state: &'static str,
    #[serde(flatten)]
    end: Option<CommandEnd>,
    /// Has the output counted for its key until the response is written.
    #[serde(skip)]
    #[schemars(skip)]
    _counted: Option<Arc<silica_sessions::CommandEnded>>,
}

/// The result of a command.
#[derive(Debug, Serialize, JsonSchema)]
struct CommandEnd {
    /// How it ended
    #[schemars(extend("enum" = ["exited", "killed", "timed_out", "out_of_memory", "sandbox_died"]))]
    outcome: &'static str,
    /// The exit status; 128 and the signal for a command that was killed
    exit_code: i32,
    /// The signal that killed it
    signal: Option<i32>,
    /// Wall-clock time
    duration_ms: f64,
    /// Standard output, with a mark where bytes were left out
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    stdout: Option<KeptText>,
    /// Standard error, with a mark where bytes were left out
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    stderr: Option<KeptText>,
    /// How much was left out
    truncated: TruncatedOutput,
}

/// How much was left out
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, transform = promised(&[]))]
struct TruncatedOutput {
    /// Bytes of standard output
    stdout: u64,
    /// Bytes of standard error
    stderr: u64,
    /// Whether the budget `kept_bytes` of the key had no room for what was left out
    by_budget: bool,
}

impl Command {
    /// Renders a command as far as it has come.
    pub(crate) fn of(command: &silica_sessions::Command, detail: Detail) -> Self {
        let (state, counted) = match command.phase() {
            CommandPhase::Running => ("running", None),
            CommandPhase::Done(end) => ("done", Some(end)),
        };
        Self {
            id: command.id.to_string(),
            command: command.line.clone(),
            process_id: command.process_id(),
            created_at: Moment(command.created_at),
            state,
            end: counted.as_deref().map(|end| CommandEnd::new(end, detail)),
            _counted: counted,
        }
    }
}

impl LongText for Command {
    fn bytes_least(&self) -> u64 {
        let end = self.end.iter();
        let streams = end.flat_map(|end| end.stdout.iter().chain(&end.stderr));
        streams.map(|stream| stream.0.kept()).sum()
    }
}

impl LongText for CommandList {
    fn bytes_least(&self) -> u64 {
        self.commands.iter().map(|command| command.command.len() as u64).sum()
    }
}

impl CommandEnd {
    fn new(end: &silica_sessions::CommandEnded, detail: Detail) -> Self {
        let shown =
            |stream: &Arc<HeadTail>| (detail == Detail::Full).then(|| KeptText(Arc::clone(stream)));
        Self {
            outcome: end.outcome.name(),
            exit_code: end.outcome.exit_code(),
            signal: end.outcome.signal(),
            duration_ms: millis(end.duration),
            stdout: shown(&end.stdout),
            stderr: shown(&end.stderr),
            truncated: TruncatedOutput {
                stdout: end.stdout.left_out(),
                stderr: end.stderr.left_out(),
                by_budget: end.keeping_refused,
            },
        }
    }
}

/// The commands of a sandbox
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CommandList {
    /// Those that run and the last 100 that ended, newest first, without output
    pub(crate) commands: Vec<Command>,
}
