//! Operations on approvals, the account, the server and its administration.

use serde_json::json;

use crate::facade::native::openapi::parts::{Operation, moment, operation, text};
use crate::facade::native::wire::{account, approval, network, sandbox, service};
use crate::facade::native::{approvals, keys, secrets};
use crate::http::problem::Code;

pub(super) fn approvals() -> Vec<Operation> {
    let one = "/v1/approvals/{approval}";
    let approve = "/v1/approvals/{approval}/approve";
    let deny = "/v1/approvals/{approval}/deny";
    let state = text("`pending` (if left out), `approved`, `denied`, `expired` or `all`");
    vec![
        operation("get", "/v1/approvals", "listApprovals", "List approvals")
            .about("All for a key that may approve, otherwise its own; the newest 100.")
            .query("state", state)
            .answers::<approval::ApprovalList>(200, "Newest first"),
        operation("get", one, "getApproval", "Look at one").answers::<approval::Approval>(200, "The object"),
        operation("post", approve, "approve", "Approve")
            .about(
                "For a key that may approve. What runs is the code of this digest and nothing \
                 else. A key cannot approve what it asked for itself, unless the operator allows it.",
            )
            .body::<approvals::DecisionBody>()
            .answers::<approval::Approval>(200, "The code runs")
            .fails(&[Code::Forbidden, Code::OwnApproval, Code::AlreadyDecided, Code::Conflict])
            .fails(&[Code::SandboxEnded, Code::QueueFull, Code::QuotaExceeded]),
        operation("post", deny, "deny", "Deny")
            .about("For a key that may approve.")
            .body::<approvals::DecisionBody>()
            .answers::<approval::Approval>(200, "The code does not run")
            .fails(&[Code::Forbidden, Code::AlreadyDecided, Code::Conflict]),
    ]
}

pub(super) fn secrets() -> Vec<Operation> {
    let one = "/v1/secrets/{secret}";
    vec![
        operation("get", "/v1/secrets", "listSecrets", "List secrets")
            .about("The key's own and those that the operator offers; never a value.")
            .answers::<network::SecretList>(200, "By name"),
        operation("get", one, "getSecret", "Look at a secret")
            .answers::<network::Secret>(200, "Everything but its value"),
        operation("put", one, "putSecret", "Store a secret")
            .about(
                "Code in sandboxes that name it sees a placeholder. The value goes over verified TLS to \
                 its hosts alone, and comes back in no answer. Replacing it does not change sandboxes \
                 that run.",
            )
            .body::<secrets::SecretBody>()
            .answers::<network::Secret>(200, "It replaced another")
            .answers::<network::Secret>(201, "It is stored")
            .fails(&[Code::BadNetwork, Code::QuotaExceeded]),
        operation("delete", one, "deleteSecret", "Delete a secret")
            .empty("It is gone; sandboxes that run keep it until they end"),
    ]
}

pub(super) fn account() -> Vec<Operation> {
    let limit = json!({
        "type": "integer", "minimum": 0, "default": 100,
        "description": "How many at most; never more than 1000",
    });
    vec![
        operation("get", "/v1/templates", "listTemplates", "List templates")
            .answers::<account::TemplateList<'_>>(200, "What sandboxes can start from"),
        operation("get", "/v1/templates/{name}", "getTemplate", "Look at a template")
            .answers::<account::TemplateShown<'_>>(200, "The object"),
        operation("get", "/v1/stats", "getStats", "Get own numbers and quota")
            .answers::<account::Stats>(200, "Numbers"),
        operation("get", "/v1/audit", "searchAudit", "Search the audit log")
            .about("An admin key sees the executions of all keys.")
            .query("sandbox", text("In this sandbox"))
            .query("outcome", text("With this outcome, or `unfinished`"))
            .query("text", text("With this text in the code"))
            .query("since", moment("Begun then or later"))
            .query("until", moment("Begun before"))
            .query("limit", limit)
            .answers::<account::ExecutionList>(200, "Executions, newest first"),
    ]
}

pub(super) fn administration() -> Vec<Operation> {
    vec![
        operation("get", "/v1/audit/verify", "verifyAudit", "Check the audit log's chain")
            .answers::<account::AuditCheck>(200, "Whether it is whole"),
        operation("get", "/v1/keys", "listKeys", "List keys")
            .answers::<account::KeyList>(200, "Every key"),
        operation("post", "/v1/keys", "createKey", "Make a key")
            .body::<keys::CreateKeyBody>()
            .answers::<account::KeyCreated>(201, "The key and its secret, this once"),
        operation("delete", "/v1/keys/{id}", "revokeKey", "Revoke a key")
            .empty("The key is revoked"),
        operation("get", "/v1/admin/sandboxes", "watchSandboxes", "List every live sandbox")
            .about("Those of all keys, with owners and usage. `silica top` shows it.")
            .answers::<sandbox::WatchedSandboxList>(200, "The sandboxes"),
    ]
    .into_iter()
    .map(Operation::admin)
    .collect()
}

pub(super) fn service() -> Vec<Operation> {
    let broken = [Code::Starting, Code::ShuttingDown, Code::CannotCreate, Code::StoreUnavailable];
    let metrics = "application/openmetrics-text";
    vec![
        operation("get", "/", "getService", "Say what this is, and where to read on")
            .answers::<service::Service>(200, "The server"),
        operation("get", "/healthz", "isAlive", "Check that the server is alive")
            .answers::<service::Alive>(200, "It is"),
        operation("get", "/readyz", "isReady", "Check that the server can create sandboxes")
            .answers::<service::Ready>(200, "It can")
            .fails(&broken),
        operation("get", "/metrics", "getMetrics", "Numbers for Prometheus")
            .sends(200, "Numbers", metrics),
        operation("get", "/openapi.json", "getDocument", "This document").sends(
            200,
            "OpenAPI 3.1",
            "application/json",
        ),
        operation("get", "/docs", "getPage", "This document as a page").sends(
            200,
            "HTML",
            "text/html",
        ),
    ]
    .into_iter()
    .map(Operation::open)
    .collect()
}
