//! Answers to prompts, and the events on the way to them.

use std::borrow::Cow;
use std::io;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Map;
use silica_interpret::model::{Cost, Delta};
use silica_interpret::preset::Shape;
use silica_interpret::{PromptAnswer, PromptEvent, RunResult};

use super::cell::{Bundle, CellError};
use super::event::stream;
use super::finding::{Finding, findings};
use super::problem::ProblemBody;
use super::{Base64, millis, promised};
use crate::http::long_answer::LongText;
use crate::http::stream::event;

/// The answer to a prompt. The first seven fields, and `errors` of blocked code, are those of other
/// code interpreters of this form
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(
    transform = promised(&[
        "prompt", "code", "blocked", "success", "output", "error", "exit_code",
    ]),
    extend("examples" = [{
        "prompt": "Print one", "code": "print(1)", "blocked": false, "success": true, "output": "1",
        "error": null, "exit_code": 0, "ending": "answered", "outcome": "ok", "rounds": 1,
        "results": [], "files": [], "conversation_id": null, "sandbox_id": "sbx_0",
    }])
)]
pub(crate) struct Interpretation {
    /// The prompt
    prompt: String,
    /// The last code that the model wrote; empty if it wrote none
    code: String,
    /// Whether that code was blocked by the policy
    blocked: bool,
    /// Whether the code ran to its end; of an agent, whether it answered
    success: bool,
    /// What the code printed, and the value of its last expression; of an agent, its last words
    output: String,
    /// The error output of the code, and why the request ended
    error: Option<String>,
    /// The exit status of the code; null if none ran
    exit_code: Option<i32>,
    /// What blocked the code; only if it is blocked
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    errors: Option<Vec<String>>,
    /// How the request ended
    #[schemars(extend("enum" = [
        "answered", "blocked", "denied", "failed", "no_code", "repeated", "steps", "tokens", "time",
        "budget", "model_failed", "refused",
    ]))]
    ending: &'static str,
    /// How the code ended, as the outcome of a cell
    outcome: Option<&'static str>,
    /// The last words of the model
    answer: String,
    /// How many pieces of code the model wrote
    rounds: usize,
    /// Each piece of code
    attempts: Vec<Attempt>,
    /// The results of the last code
    results: Vec<Bundle>,
    /// The files that the code created or changed
    files: Vec<OutputFile>,
    /// What the model used
    usage: ModelUsage,
    /// The conversation, if there is one
    conversation_id: Option<String>,
    /// The sandbox that the code ran in
    sandbox_id: Option<String>,
}

/// Code that the model wrote
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, transform = promised(&["code", "blocked", "outcome"]))]
struct Attempt {
    /// The code
    code: String,
    /// Whether the policy blocked it
    blocked: bool,
    /// The findings of the policy
    findings: Vec<Finding>,
    /// How it ended; null if it did not run
    outcome: Option<&'static str>,
    /// What it printed
    output: Option<String>,
    /// Its error output
    error: Option<String>,
    /// Wall-clock time
    duration_ms: Option<f64>,
}

/// A file that was created or changed
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct OutputFile {
    /// Its path
    path: String,
    /// Its size in bytes
    size: u64,
    /// Its content, if the sandbox has ended and all files together have at most 8 MiB
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Base64")]
    content_base64: Option<Base64>,
}

/// What the model used
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, transform = promised(&["requests", "input_tokens"]))]
struct ModelUsage {
    /// The model
    model: String,
    /// Requests to it
    requests: u32,
    /// Tokens that it read
    input_tokens: u64,
    /// Tokens that it wrote
    output_tokens: u64,
    /// The cost; null if the price is not known
    cost_dollars: Option<f64>,
}

impl LongText for Interpretation {
    fn bytes_least(&self) -> u64 {
        self.results.iter().map(Bundle::bytes_least).sum()
    }
}

impl From<&PromptAnswer> for Interpretation {
    fn from(answered: &PromptAnswer) -> Self {
        let last = answered.last();
        let ran = answered.run();
        let blocked = answered.blocked();
        let headlines = || last.map(|attempt| attempt.report.headlines()).unwrap_or_default();
        let usage = &answered.usage;
        let results = ran.into_iter().flat_map(|ran| &ran.results);
        Self {
            prompt: answered.prompt.clone(),
            code: last.map(|attempt| attempt.code.clone()).unwrap_or_default(),
            blocked,
            success: answered.succeeded(),
            output: output(answered),
            error: error(answered),
            exit_code: ran.map(|ran| ran.outcome.exit_code()),
            errors: blocked.then(headlines),
            ending: answered.ending.name(),
            outcome: ran.map(|ran| ran.outcome.name()),
            answer: answered.text.clone(),
            rounds: answered.attempts.len(),
            attempts: answered.attempts.iter().map(Attempt::from).collect(),
            results: results.map(Bundle::from).collect(),
            files: answered.files.iter().map(OutputFile::from).collect(),
            usage: ModelUsage {
                model: answered.model.clone(),
                requests: usage.requests,
                input_tokens: usage.tokens.input,
                output_tokens: usage.tokens.output,
                cost_dollars: usage.cost.map(Cost::as_dollars),
            },
            conversation_id: answered.conversation.clone(),
            sandbox_id: answered.sandbox.clone(),
        }
    }
}

impl From<&silica_interpret::Attempt> for Attempt {
    fn from(attempt: &silica_interpret::Attempt) -> Self {
        let ran = attempt.run.as_ref();
        Self {
            code: attempt.code.clone(),
            blocked: attempt.blocked,
            findings: findings(&attempt.report),
            outcome: ran.map(|ran| ran.outcome.name()),
            output: ran.map(RunResult::output),
            error: ran.and_then(RunResult::complaint),
            duration_ms: ran.map(|ran| millis(ran.duration)),
        }
    }
}

impl From<&silica_interpret::OutputFile> for OutputFile {
    fn from(file: &silica_interpret::OutputFile) -> Self {
        Self {
            path: file.path.clone(),
            size: file.size,
            content_base64: file.content.clone().map(Base64),
        }
    }
}

/// Returns what the code printed; of an agent, its last words.
fn output(answered: &PromptAnswer) -> String {
    match answered.shape {
        Shape::Interpret => answered.run().map(RunResult::output).unwrap_or_default(),
        Shape::Agent => answered.text.trim().to_owned(),
    }
}

/// Returns the error output of the code, and why the request ended.
fn error(answered: &PromptAnswer) -> Option<String> {
    let complaint = answered.run().and_then(RunResult::complaint);
    let ending = answered.ending.explain().map(str::to_owned);
    match (complaint, ending) {
        (Some(complaint), Some(ending)) => Some(format!("{complaint}\n{ending}")),
        (complaint, ending) => complaint.or(ending),
    }
}

/// The model is asked
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct AskingEvent {
    /// The number of the request, from 1
    request: u32,
}

/// A piece of text, as it arrives
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct TextEvent<'a> {
    /// The piece
    text: &'a str,
}

/// The code that was found
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct CodeEvent<'a> {
    /// Python
    code: &'a str,
}

/// The findings of the policy
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct CheckEvent {
    /// What is done about them
    #[schemars(extend("enum" = ["allow", "warn", "ask", "block"]))]
    verdict: &'static str,
    /// The findings
    findings: Vec<Finding>,
}

/// The code runs
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct RunningEvent {}

/// The code waits for the approval of a person, or one has decided
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ApprovalEvent<'a> {
    /// The id of the approval
    approval: &'a str,
}

/// The code has ended
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct RanEvent {
    /// How it ended
    outcome: &'static str,
}

/// The code goes back to the model
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct RepairEvent<'a> {
    /// The feedback for the model
    reason: &'a str,
}

/// Writes an event.
pub(crate) fn write(chunk: &mut dyn io::Write, happened: &PromptEvent) -> io::Result<()> {
    match happened {
        PromptEvent::Asking(request) => {
            event(chunk, None, "asking", &AskingEvent { request: *request })
        }
        PromptEvent::Delta(Delta::Text(text)) => event(chunk, None, "text", &TextEvent { text }),
        PromptEvent::Delta(Delta::Input(text)) => event(chunk, None, "input", &TextEvent { text }),
        PromptEvent::Code(code) => event(chunk, None, "code", &CodeEvent { code }),
        PromptEvent::Checked(report) => {
            let verdict = report.verdict.name();
            event(chunk, None, "check", &CheckEvent { verdict, findings: findings(report) })
        }
        PromptEvent::Running => event(chunk, None, "running", &RunningEvent {}),
        PromptEvent::Approval(id) => {
            event(chunk, None, "approval", &ApprovalEvent { approval: id })
        }
        PromptEvent::Stdout(text) => event(chunk, None, "stdout", &TextEvent { text }),
        PromptEvent::Stderr(text) => event(chunk, None, "stderr", &TextEvent { text }),
        PromptEvent::Result(bundle) => event(chunk, None, "result", &Bundle::from(bundle)),
        PromptEvent::Error(error) => event(chunk, None, "error", &CellError::from(&**error)),
        PromptEvent::Ran(outcome) => event(chunk, None, "ran", &RanEvent { outcome }),
        PromptEvent::Repair(reason) => event(chunk, None, "repair", &RepairEvent { reason }),
    }
}

/// The events of a prompt. Only its schema is used.
#[derive(Debug)]
pub(crate) enum InterpretEventStream {}

impl JsonSchema for InterpretEventStream {
    fn schema_name() -> Cow<'static, str> {
        "InterpretEvents".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let about =
            "Server-sent events. The last one is `done`, or `problem` if the request failed.";
        let mut events = Map::new();
        let mut add =
            |name: &str, schema: Schema| events.insert(name.to_owned(), schema.to_value());
        add("asking", generator.subschema_for::<AskingEvent>());
        add("text", generator.subschema_for::<TextEvent<'_>>());
        add("input", generator.subschema_for::<TextEvent<'_>>());
        add("code", generator.subschema_for::<CodeEvent<'_>>());
        add("check", generator.subschema_for::<CheckEvent>());
        add("running", generator.subschema_for::<RunningEvent>());
        add("approval", generator.subschema_for::<ApprovalEvent<'_>>());
        add("stdout", generator.subschema_for::<TextEvent<'_>>());
        add("stderr", generator.subschema_for::<TextEvent<'_>>());
        add("result", generator.subschema_for::<Bundle>());
        add("error", generator.subschema_for::<CellError>());
        add("ran", generator.subschema_for::<RanEvent>());
        add("repair", generator.subschema_for::<RepairEvent<'_>>());
        add("done", generator.subschema_for::<Interpretation>());
        add("problem", generator.subschema_for::<ProblemBody<'_>>());
        stream(about, &events)
    }
}
