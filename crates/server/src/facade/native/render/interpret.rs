//! What came of a prompt as the JSON that clients see, and its events.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use silica_interpret::model::Delta;
use silica_interpret::{Answered, Attempt, Event, OutputFile, Ran};
use silica_policy::{Finding, Report};

use crate::facade::native::render;
use crate::http::stream::line;

/// A prompt's answer. The first seven fields, and `errors` for code that was kept from running, are
/// those that other code interpreters of this form have.
pub fn answered(answered: &Answered) -> Value {
    let (last, ran) = (answered.last(), answered.ran());
    let blocked = answered.blocked();
    let mut value = json!({
        "prompt": answered.prompt,
        "code": last.map(|attempt| attempt.code.as_str()).unwrap_or_default(),
        "blocked": blocked,
        "success": answered.succeeded(),
        "output": output(answered),
        "error": error(answered),
        "exit_code": ran.map(|ran| ran.outcome.exit_code()),
    });
    if blocked {
        let report = last.map(|attempt| attempt.report.headlines());
        value["errors"] = report.unwrap_or_default().into();
    }
    let usage = &answered.usage;
    value["ending"] = answered.ending.name().into();
    value["outcome"] = ran.map(|ran| ran.outcome.name()).into();
    value["answer"] = answered.said.as_str().into();
    value["rounds"] = answered.attempts.len().into();
    value["attempts"] = answered.attempts.iter().map(attempt).collect();
    value["results"] = results(ran);
    value["files"] = answered.files.iter().map(file).collect();
    value["usage"] = json!({
        "model": answered.model,
        "requests": usage.requests,
        "input_tokens": usage.tokens.input,
        "output_tokens": usage.tokens.output,
        "cost_dollars": usage.cost.map(silica_interpret::model::Cost::as_dollars),
    });
    value["conversation_id"] = answered.conversation.clone().into();
    value["sandbox_id"] = answered.sandbox.clone().into();
    value
}

/// What the code printed; of an agent, what it says.
fn output(answered: &Answered) -> String {
    match answered.shape {
        silica_interpret::preset::Shape::Interpret => {
            answered.ran().map(Ran::output).unwrap_or_default()
        }
        silica_interpret::preset::Shape::Agent => answered.said.trim().to_owned(),
    }
}

/// What the code complained about, or why it ended as it did.
fn error(answered: &Answered) -> Option<String> {
    let complaint = answered.ran().and_then(Ran::complaint);
    let ending = answered.ending.explain().map(str::to_owned);
    match (complaint, ending) {
        (Some(complaint), Some(ending)) => Some(format!("{complaint}\n{ending}")),
        (complaint, ending) => complaint.or(ending),
    }
}

fn results(ran: Option<&Ran>) -> Value {
    ran.into_iter().flat_map(|ran| &ran.results).map(|bundle| render::bundle(bundle)).collect()
}

fn attempt(attempt: &Attempt) -> Value {
    let ran = attempt.ran.as_ref();
    json!({
        "code": attempt.code,
        "blocked": attempt.blocked,
        "findings": findings(&attempt.report),
        "outcome": ran.map(|ran| ran.outcome.name()),
        "output": ran.map(Ran::output),
        "error": ran.and_then(Ran::complaint),
        "duration_ms": ran.map(|ran| render::millis(ran.duration)),
    })
}

fn findings(report: &Report) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "rule": finding.rule,
            "severity": finding.severity.name(),
            "action": finding.action.name(),
            "line": finding.line,
            "column": finding.column,
            "code": finding.code,
            "why": finding.why,
            "instead": finding.instead,
        })
    };
    report.findings.iter().map(finding).collect()
}

fn file(file: &OutputFile) -> Value {
    let mut value = json!({"path": file.path, "size": file.size});
    if let Some(content) = &file.content {
        value["content_base64"] = STANDARD.encode(content).into();
    }
    value
}

/// Writes an event.
pub(crate) fn event(chunk: &mut Vec<u8>, event: &Event) {
    let mut tell = |name: &str, data: Value| line(chunk, None, name, &data);
    match event {
        Event::Asking(request) => tell("asking", json!({"request": request})),
        Event::Delta(Delta::Text(text)) => tell("text", json!({"text": text})),
        Event::Delta(Delta::Input(text)) => tell("input", json!({"text": text})),
        Event::Code(code) => tell("code", json!({"code": code})),
        Event::Checked(report) => {
            let verdict = report.verdict.name();
            tell("check", json!({"verdict": verdict, "findings": findings(report)}));
        }
        Event::Running => tell("running", json!({})),
        Event::Approval(id) => tell("approval", json!({"approval": id})),
        Event::Stdout(text) => tell("stdout", json!({"text": text})),
        Event::Stderr(text) => tell("stderr", json!({"text": text})),
        Event::Result(bundle) => tell("result", render::bundle(bundle)),
        Event::Error(error) => tell("error", render::error(error)),
        Event::Ran(outcome) => tell("ran", json!({"outcome": outcome})),
        Event::Repair(reason) => tell("repair", json!({"reason": reason})),
    }
}
