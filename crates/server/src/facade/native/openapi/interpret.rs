//! Prompts and their answers, field by field.

use serde_json::{Value, json};

use super::answers::{Group, stream};
use super::operations::MAKING;
use super::parts::{
    Operation, list, named, number, object, operation, or_null, strict, text, texts, truth, whole,
    word,
};
use super::requests::{Named, file, optional_text, seconds};
use crate::http::problem::Code;

/// How asking a model can fail.
const ASKING: [Code; 9] = [
    Code::PromptTooLong,
    Code::ModelNotFound,
    Code::BudgetSpent,
    Code::ModelFailed,
    Code::ModelNotConfigured,
    Code::ModelBusy,
    Code::ModelSlow,
    Code::QueueFull,
    Code::SandboxEnded,
];

pub(super) fn operations() -> Vec<Operation> {
    vec![
        operation("post", "/interpret", "prompt", "Answer a prompt")
            .about(
                "A model writes a program, the program is checked and run in a sandbox of its own, and \
                 what it printed comes back. What goes wrong is sent back to the model a few times.",
            )
            .body("Prompt")
            .answers(200, "What came of it", "Interpretation")
            .fails(&MAKING)
            .fails(&ASKING),
        operation("post", "/v1/interpret", "interpret", "Answer a prompt, with files and wishes")
            .about(
                "The same with files, limits, a policy, a preset and a conversation. With \
                 `Accept: text/event-stream` every stage is told as it happens. A client that leaves \
                 stops the model and the code.",
            )
            .header("Accept", text("`text/event-stream` for a stream of events"))
            .body("Interpret")
            .answers(200, "What came of it, or its events", "Interpretation")
            .or_events(200, "InterpretEvents")
            .fails(&MAKING)
            .fails(&ASKING)
            .fails(&[Code::ConversationNotFound, Code::ConversationBusy, Code::BadPath])
            .fails(&[Code::NotAFile, Code::Refused, Code::DiskFull]),
    ]
}

pub(super) fn prompt() -> Named {
    let properties = json!({
        "prompt": text("What is wanted, in plain words; at most 2000 characters unless the operator \
                        says otherwise"),
        "model": optional_text("Which model, if the operator offers several"),
    });
    let example = json!({"prompt": "Calculate the first 20 Fibonacci numbers", "model": null});
    ("Prompt", strict("A prompt", &["prompt"], &properties), example)
}

pub(super) fn interpret() -> Named {
    let shapes = word(
        &["interpret", "agent"],
        "One program, or step by step with a tool; the preset's if left out",
    );
    let properties = json!({
        "prompt": text("What is wanted, in plain words"),
        "model": optional_text("Which model, if the operator offers several"),
        "preset": optional_text("`data`, `math`, `program` or one of the operator's"),
        "policy": optional_text("`strict`, `data`, `open`, or a policy in TOML; the preset's if left out"),
        "shape": or_null(shapes),
        "rounds": or_null(json!({
            "type": "integer", "minimum": 0, "maximum": u32::MAX,
            "description": "How often code may go back to the model; not more than the operator says",
        })),
        "conversation": optional_text("`new` to begin one, its id to go on; nothing for a sandbox that is \
                               gone afterwards"),
        "template": optional_text("What the sandbox starts from"),
        "limits": or_null(named("Limits")),
        "env": texts("Variables"),
        "files": list(&file(), "Files that lie in the sandbox; relative paths lie in `/workspace`"),
        "timeout_seconds": seconds("How long each piece of code may run"),
    });
    let example = json!({
        "prompt": "Plot the sum of b by a", "preset": "data", "conversation": "new",
        "files": [{"path": "data.csv", "content": "a,b\n1,2\n"}],
    });
    ("Interpret", strict("A prompt, and wishes", &["prompt"], &properties), example)
}

pub(super) fn answers() -> Group {
    let about = "Server-sent events. The last one is `done`, or `problem` if it failed on the way.";
    let said = |about: &str| object(about, &["text"], &json!({"text": text("The piece")}));
    let check = json!({
        "verdict": word(&["allow", "warn", "ask", "block"], "What is done about it"),
        "findings": list(&named("CheckFinding"), "What was found"),
    });
    let number = json!({"request": whole("The how-many-th time")});
    let events = json!({
        "asking": object("The model is asked", &["request"], &number),
        "text": said("A piece of the model's words, as it arrives"),
        "input": said("A piece of the arguments of a tool, as it arrives"),
        "code": object("The code that was found", &["code"], &json!({"code": text("Python")})),
        "check": object("What the check said", &["verdict", "findings"], &check),
        "running": object("The code runs", &[], &json!({})),
        "approval": object(
            "The code waits for a person, or one has decided",
            &["approval"],
            &json!({"approval": text("The id of the approval")}),
        ),
        "stdout": said("The code prints"),
        "stderr": said("The code complains"),
        "result": named("Bundle"),
        "error": named("CellError"),
        "ran": object("The code has ended", &["outcome"], &json!({"outcome": text("How")})),
        "repair": object(
            "It goes back to the model",
            &["reason"],
            &json!({"reason": text("What the model is told")}),
        ),
        "done": named("Interpretation"),
        "problem": named("Problem"),
    });
    vec![
        ("Interpretation", interpretation()),
        ("CheckFinding", finding()),
        ("InterpretEvents", stream(about, &events)),
    ]
}

/// What a key has spent on models.
pub(super) fn spent() -> Value {
    let properties = json!({
        "requests": whole("Requests to models"),
        "input_tokens": whole("Tokens they read"),
        "output_tokens": whole("Tokens they wrote"),
        "cost_dollars": number("What that costs, as far as prices are known"),
    });
    object("What was spent on models today (UTC)", &["requests", "cost_dollars"], &properties)
}

fn finding() -> Value {
    let properties = json!({
        "rule": text("The rule's id"),
        "severity": text("How bad it would be"),
        "action": word(&["allow", "warn", "ask", "block"], "What is done about it"),
        "line": whole("From 1"),
        "column": whole("From 1"),
        "code": text("The code it is about"),
        "why": text("Why it was found"),
        "instead": or_null(text("What to write instead")),
    });
    object("Something the check found", &["rule", "action", "line", "column", "why"], &properties)
}

fn attempt() -> Value {
    let properties = json!({
        "code": text("The code"),
        "blocked": truth("Whether it was kept from running"),
        "findings": list(&named("CheckFinding"), "What the check found"),
        "outcome": or_null(text("How it ended; null if it did not run")),
        "output": or_null(text("What it printed")),
        "error": or_null(text("What it complained about")),
        "duration_ms": or_null(number("Time on the clock")),
    });
    object("Code that the model wrote", &["code", "blocked", "outcome"], &properties)
}

fn interpretation() -> Value {
    let endings = [
        "answered",
        "blocked",
        "denied",
        "failed",
        "no_code",
        "repeated",
        "steps",
        "tokens",
        "time",
        "budget",
        "model_failed",
        "refused",
    ];
    let usage = json!({
        "model": text("The model that was asked"),
        "requests": whole("How often"),
        "input_tokens": whole("Tokens it read"),
        "output_tokens": whole("Tokens it wrote"),
        "cost_dollars": or_null(number("What that costs; null if the price is not known")),
    });
    let file = json!({
        "path": text("Where it is"),
        "size": whole("Bytes"),
        "content_base64": {"type": "string", "contentEncoding": "base64", "description":
            "Its content, where the sandbox is gone and all files together have at most 8 MiB"},
    });
    let properties = json!({
        "prompt": text("What was wanted"),
        "code": text("The last code that the model wrote; empty if it wrote none"),
        "blocked": truth("Whether that code was kept from running"),
        "success": truth("Whether it ran to its end; of an agent, whether it answered"),
        "output": text("What it printed, and the value of its last expression; what an agent says"),
        "error": or_null(text("What it complained about, and why the request ended")),
        "exit_code": {"type": ["integer", "null"], "description": "null if nothing ran"},
        "errors": list(&json!({"type": "string"}), "What kept it from running; only if it is blocked"),
        "ending": word(&endings, "How the request ended"),
        "outcome": or_null(text("How the code ended, as of a cell")),
        "answer": text("What the model said last"),
        "rounds": whole("How many pieces of code the model wrote"),
        "attempts": list(&attempt(), "Each of them"),
        "results": list(&named("Bundle"), "What the last code showed"),
        "files": list(
            &object("A file that was made or changed", &["path", "size"], &file),
            "What all of the code made or changed",
        ),
        "usage": object("What was asked of the model", &["requests", "input_tokens"], &usage),
        "conversation_id": or_null(text("The conversation, if there is one")),
        "sandbox_id": or_null(text("Where it ran")),
    });
    let required = ["prompt", "code", "blocked", "success", "output", "error", "exit_code"];
    let mut schema = object("What came of a prompt", &required, &properties);
    schema["examples"] = json!([{
        "prompt": "Print one", "code": "print(1)", "blocked": false, "success": true, "output": "1",
        "error": null, "exit_code": 0, "ending": "answered", "outcome": "ok", "rounds": 1,
        "results": [], "files": [], "conversation_id": null, "sandbox_id": "sbx_0",
    }]);
    schema
}
