//! Error codes: their statuses and meanings, and the responses made of them.

use std::collections::BTreeMap;

use schemars::Schema;
use serde_json::{Map, Value, json};

use super::parts::Operation;
use crate::http::problem::Code;

/// Explains a code. The match is exhaustive, so that no code goes unexplained.
#[expect(clippy::too_many_lines, reason = "one arm for each code")]
fn meaning(code: Code) -> &'static str {
    match code {
        Code::BadRequest => "malformed JSON, a missing or unknown field, a wrong type or value",
        Code::BadPath => "a path outside of the places for files",
        Code::BadLimit => "a limit outside of what the operator allows",
        Code::BadNetwork => "a rule, limit or secret of a network that is malformed",
        Code::PromptTooLong => "a prompt longer than the operator allows",
        Code::BadRange => "a range that lies outside of the file",
        Code::Unauthorized => "no key, or none that is valid",
        Code::Forbidden => "the key is not an admin key, or may not approve",
        Code::OwnApproval => "a key may not approve what it asked for itself",
        Code::NotApprovable => "everything has to be approved here, and commands cannot be",
        Code::NetworkNotOffered => "a network, preset or host that the operator does not offer",
        Code::WrongOrigin => "a web page of an origin, or a host name, that is not allowed",
        Code::LinkInvalid => {
            "a link that was not made here, has expired or is for the other method"
        }
        Code::PortNotExposed => "a port that the sandbox does not expose",
        Code::NotFound => "no such route",
        Code::SandboxNotFound => "no such sandbox, or another key's",
        Code::KernelNotFound => "no such kernel in the sandbox",
        Code::CellNotFound => "no such cell in the sandbox, or it is not kept any more",
        Code::CommandNotFound => "no such command in the sandbox, or it is not kept any more",
        Code::FileNotFound => "no such file or directory",
        Code::TemplateNotFound => "no such template on this server",
        Code::KeyNotFound => "no such key",
        Code::ApprovalNotFound => "no such approval, or another key's",
        Code::SecretNotFound => "no such secret of this key or of the operator",
        Code::ModelNotFound => {
            "a model that is not offered here, or that the provider does not have"
        }
        Code::ConversationNotFound => {
            "no such conversation, another key's, or its sandbox has ended"
        }
        Code::MethodNotAllowed => "the route does not support that method",
        Code::RequestTimeout => "no byte of the body arrived for 30 seconds",
        Code::TooLarge => "a body, file or listing that is larger than is allowed",
        Code::Conflict => {
            "the file exists, the directory is not empty, a move into itself, a kernel that is busy"
        }
        Code::SandboxEnded => "the sandbox was there and has ended; the detail says why",
        Code::SnapshotNotFound => "there is no such snapshot, or it is another key's",
        Code::CannotFork => {
            "threads, processes or shared memory would make a copy wrong, or memory does not suffice; \
             the detail names them"
        }
        Code::CellEnded => "the cell has ended already",
        Code::CommandEnded => "the command has ended already",
        Code::AlreadyDecided => "it was approved or denied before, or its time is up",
        Code::PolicyBlocked => "the policy does not let the code run; `findings` says why",
        Code::ConversationBusy => "another request is going on in this conversation",
        Code::NotAFile => "a directory where a file is needed",
        Code::NotADirectory => "a file where a directory is needed",
        Code::Refused => "a link, FIFO, socket or device, or nothing the code itself may touch",
        Code::CannotStart => "a command that does not exist or cannot be run",
        Code::RateLimited => "too many requests; Retry-After says when to come back",
        Code::QuotaExceeded => "more than the key may use; Retry-After says when to come back",
        Code::QueueFull => "too many cells wait; Retry-After says when to come back",
        Code::BudgetSpent => "the key's budget for models; Retry-After says when there is more",
        Code::Internal => "the server failed; its log has the request's id",
        Code::Starting => "the server is not ready yet; the message says what it waits for",
        Code::ShuttingDown => "the server is going down; Retry-After says when to come back",
        Code::StoreUnavailable => "what is to be done cannot be recorded, so it is not done",
        Code::CannotCreate => "the sandbox or process could not be made; the log says why",
        Code::ModelFailed => "the model's provider refused, failed, or sent no answer",
        Code::ModelNotConfigured => "the server has no model, or no key for it",
        Code::ModelBusy => "the model's provider is overloaded; Retry-After if it said when",
        Code::ModelSlow => "the model's provider, or the whole request, took too long",
        Code::PortClosed => "no server in the sandbox listens on the port",
        Code::PortFailed => "the server on the port sent no valid response",
        Code::PortSlow => "the server on the port did not respond in time",
        Code::DiskFull => "the sandbox's disk is full",
    }
}

/// Adds the codes and their meanings to the schema of the body of every error.
pub(crate) fn describe_codes(schema: &mut Schema) {
    let names: Vec<&str> = Code::ALL.iter().map(|code| code.name_and_status().0).collect();
    let table = Code::ALL.iter().map(|&code| {
        let (name, status) = code.name_and_status();
        json!({"code": name, "status": status.as_u16(), "meaning": meaning(code)})
    });
    let table: Vec<Value> = table.collect();
    if let Some(code) = schema.pointer_mut("/properties/code") {
        code["enum"] = json!(names);
        code["x-codes"] = json!(table);
    }
}

/// Returns the responses of these codes by status, as references to [`components`].
pub(super) fn responses(codes: &[Code]) -> BTreeMap<u16, Value> {
    let reference = |(status, names): (u16, Vec<&str>)| {
        (status, json!({"$ref": format!("#/components/responses/{}", names.join("-"))}))
    };
    by_status(codes).into_iter().map(reference).collect()
}

/// Returns every response that an operation refers to, by the names of its codes.
pub(super) fn components(operations: &[Operation]) -> Map<String, Value> {
    let all = operations.iter().flat_map(|operation| by_status(&operation.codes()));
    let sorted: BTreeMap<(u16, Vec<&str>), Value> = all
        .map(|(status, names)| {
            let response = response(status, &names);
            ((status, names), response)
        })
        .collect();
    sorted.into_iter().map(|((_, names), response)| (names.join("-"), response)).collect()
}

fn by_status(codes: &[Code]) -> BTreeMap<u16, Vec<&'static str>> {
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in Code::ALL.iter().filter(|code| codes.contains(code)) {
        let (name, status) = code.name_and_status();
        by_status.entry(status.as_u16()).or_default().push(name);
    }
    by_status
}

fn response(status: u16, names: &[&str]) -> Value {
    let described: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let schema = json!({
        "$ref": "#/components/schemas/Problem",
        "properties": {"code": {"enum": names}},
    });
    let mut response = json!({
        "description": described.join(", "),
        "content": {"application/problem+json": {"schema": schema}},
    });
    if status == 429 || names.contains(&"shutting_down") {
        response["headers"] = json!({"Retry-After": {
            "description": "Seconds to wait", "schema": {"type": "integer", "minimum": 1},
        }});
    }
    response
}
