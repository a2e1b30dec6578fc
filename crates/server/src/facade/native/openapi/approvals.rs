//! The part of the document that is about the check of code and about approvals.

use serde_json::{Value, json};

use super::parts::{
    Operation, list, moment, named, object, operation, or_null, strict, text, truth, whole, word,
};
use crate::http::problem::Code;

pub(super) fn operations() -> Vec<Operation> {
    let one = "/v1/approvals/{approval}";
    let approve = "/v1/approvals/{approval}/approve";
    let deny = "/v1/approvals/{approval}/deny";
    let state = text("`pending` (if left out), `approved`, `denied`, `expired` or `all`");
    vec![
        operation("get", "/v1/approvals", "listApprovals", "List what waits for a person")
            .about("Everybody's for a key that may approve, otherwise one's own; the newest 100.")
            .query("state", state)
            .answers(200, "Newest first", "ApprovalList"),
        operation("get", one, "getApproval", "Look at one").answers(200, "It", "Approval"),
        operation("post", approve, "approve", "Let it run")
            .about(
                "For a key that may approve. What runs is the code of this digest and nothing \
                 else. A key cannot approve what it asked for itself, unless the operator allows it.",
            )
            .body("Word")
            .answers(200, "It is on its way", "Approval")
            .fails(&[Code::Forbidden, Code::OwnApproval, Code::AlreadyDecided, Code::Conflict])
            .fails(&[Code::SandboxEnded, Code::QueueFull, Code::QuotaExceeded]),
        operation("post", deny, "deny", "Have it never run")
            .about("For a key that may approve.")
            .body("Word")
            .answers(200, "It will not run", "Approval")
            .fails(&[Code::Forbidden, Code::AlreadyDecided, Code::Conflict]),
    ]
}

pub(super) fn word_body() -> (&'static str, Value, Value) {
    let properties = json!({
        "reason": or_null(text("Why, for whoever asked and for the audit log")),
        "sha256": or_null(text("The digest of the code that was looked at; another one is refused")),
    });
    let example = json!({"reason": "looks good", "sha256": null});
    ("Word", strict("A person's word", &[], &properties), example)
}

fn finding() -> Value {
    let actions = ["warn", "ask", "block"];
    let properties = json!({
        "rule": text("The rule's id"),
        "kind": text("What the rule looks at"),
        "severity": word(&["low", "medium", "high", "critical"], "How bad it would be"),
        "action": word(&actions, "What is done about it"),
        "line": whole("The line, from 1"),
        "column": whole("The column, from 1, in characters"),
        "code": text("The code it is about"),
        "name": text("What it is about in one word"),
        "why": text("Why it was found"),
        "instead": or_null(text("What to write instead")),
    });
    let required =
        ["rule", "kind", "severity", "action", "line", "column", "code", "name", "why", "instead"];
    object("Something that a policy's rule speaks about", &required, &properties)
}

fn brief() -> Value {
    json!({
        "id": {"type": "string", "pattern": "^apr_", "description": "Its id"},
        "state": word(&["pending", "approved", "denied", "expired"], "Whether it was decided"),
        "sha256": text("The digest of the code"),
        "expires_at": moment("When no decision becomes a no"),
        "decided_by": or_null(text("The key that decided; none where time did")),
        "reason": or_null(text("Why")),
    })
}

pub(super) fn answers() -> Vec<(&'static str, Value)> {
    let required = ["id", "state", "sha256", "expires_at", "decided_by", "reason"];
    let of_cell = object("What a cell waits or waited for", &required, &brief());
    let mut all = brief();
    let more = json!({
        "owner": text("The key that asked"),
        "sandbox": text("Where it is to run"),
        "cell": text("Which cell it is"),
        "policy": text("The policy that asks"),
        "findings": list(&named("Finding"), "What it found"),
        "created_at": moment("When it was asked"),
        "decided_at": or_null(moment("When it was decided")),
        "code": or_null(text("The code, while it waits; in a list only up to 64 KiB")),
        "runnable": truth("Whether it waits and its sandbox is still there"),
    });
    for (name, schema) in more.as_object().into_iter().flatten() {
        all[name] = schema.clone();
    }
    let names: Vec<String> =
        all.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let approval = object("An execution that waits for a person, or waited", &names, &all);
    let items = json!({"approvals": list(&named("Approval"), "Newest first")});
    vec![
        ("Finding", finding()),
        ("CellApproval", of_cell),
        ("Approval", approval),
        ("ApprovalList", object("Approvals", &["approvals"], &items)),
    ]
}
