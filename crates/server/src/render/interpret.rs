//! What came of a prompt as the JSON that clients see, and its events.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use silica_interpret::model::Delta;
use silica_interpret::{Attempt, OutputFile, PromptAnswer, PromptEvent, RunResult};
use silica_policy::{Finding, Report};

use crate::render;
use crate::stream::line;

/// A prompt's answer. The first seven fields, and `errors` for code that was kept from running, are
/// those that other code interpreters of this form have.
pub fn answered(answered: &PromptAnswer) -> Value {
    let (last, ran) = (answered.last(), answered.run());
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
    value["answer"] = answered.text.as_str().into();
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
fn output(answered: &PromptAnswer) -> String {
    match answered.shape {
        silica_interpret::preset::Shape::Interpret => {
            answered.run().map(RunResult::output).unwrap_or_default()
        }
        silica_interpret::preset::Shape::Agent => answered.text.trim().to_owned(),
    }
}

/// What the code complained about, or why it ended as it did.
fn error(answered: &PromptAnswer) -> Option<String> {
    let complaint = answered.run().and_then(RunResult::complaint);
    let ending = answered.ending.explain().map(str::to_owned);
    match (complaint, ending) {
        (Some(complaint), Some(ending)) => Some(format!("{complaint}\n{ending}")),
        (complaint, ending) => complaint.or(ending),
    }
}

fn results(ran: Option<&RunResult>) -> Value {
    ran.into_iter().flat_map(|ran| &ran.results).map(|bundle| render::bundle(bundle)).collect()
}

fn attempt(attempt: &Attempt) -> Value {
    let ran = attempt.run.as_ref();
    json!({
        "code": attempt.code,
        "blocked": attempt.blocked,
        "findings": findings(&attempt.report),
        "outcome": ran.map(|ran| ran.outcome.name()),
        "output": ran.map(RunResult::output),
        "error": ran.and_then(RunResult::complaint),
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
pub(crate) fn event(chunk: &mut Vec<u8>, event: &PromptEvent) {
    let mut tell = |name: &str, data: Value| line(chunk, None, name, &data);
    match event {
        PromptEvent::Asking(request) => tell("asking", json!({"request": request})),
        PromptEvent::Delta(Delta::Text(text)) => tell("text", json!({"text": text})),
        PromptEvent::Delta(Delta::Input(text)) => tell("input", json!({"text": text})),
        PromptEvent::Code(code) => tell("code", json!({"code": code})),
        PromptEvent::Checked(report) => {
            let verdict = report.verdict.name();
            tell("check", json!({"verdict": verdict, "findings": findings(report)}));
        }
        PromptEvent::Running => tell("running", json!({})),
        PromptEvent::Approval(id) => tell("approval", json!({"approval": id})),
        PromptEvent::Stdout(text) => tell("stdout", json!({"text": text})),
        PromptEvent::Stderr(text) => tell("stderr", json!({"text": text})),
        PromptEvent::Result(bundle) => tell("result", render::bundle(bundle)),
        PromptEvent::Error(error) => tell("error", render::error(error)),
        PromptEvent::Ran(outcome) => tell("ran", json!({"outcome": outcome})),
        PromptEvent::Repair(reason) => tell("repair", json!({"reason": reason})),
    }
}
