//! Approvals of code by a person.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use silica_store::Tenant;
use silica_store::approvals::{ApprovalRecord, Scope, Subject};

use super::Moment;
use super::finding::Finding;
use crate::http::long_answer::LongText;

/// The approval that a cell waits or waited for
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CellApproval {
    /// The approval's id
    #[schemars(regex(pattern = "^apr_"))]
    id: String,
    /// Whether it was decided
    #[schemars(extend("enum" = ["pending", "approved", "denied", "expired"]))]
    state: &'static str,
    /// The digest of the code
    sha256: String,
    /// When it expires, which denies it
    expires_at: Moment,
    /// The key that decided; null if it expired
    decided_by: Option<String>,
    /// The reason given with the decision
    reason: Option<String>,
}

impl From<&ApprovalRecord> for CellApproval {
    fn from(record: &ApprovalRecord) -> Self {
        Self {
            id: record.id.as_str().to_owned(),
            state: record.state.name(),
            sha256: record.sha256.to_string(),
            expires_at: Moment(record.expires_at),
            decided_by: record.decided_by.as_ref().map(Tenant::as_str).map(str::to_owned),
            reason: record.reason.clone(),
        }
    }
}

/// An approval without its code, as a webhook receives it
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ApprovalSummary {
    #[serde(flatten)]
    cell_approval: CellApproval,
    /// What waits
    #[schemars(extend("enum" = ["code", "network"]))]
    kind: &'static str,
    /// The host and port of a connection; null for code
    connection: Option<AskedConnection>,
    /// How far the approval of a connection reaches
    #[schemars(extend("enum" = ["once", "sandbox", "key", null]))]
    scope: Option<&'static str>,
    /// The key that submitted the code
    owner: String,
    /// The sandbox it is to run in
    sandbox: String,
    /// Its cell; for a connection the cells that ran, with commas between them
    cell: String,
    /// The policy that asks
    policy: String,
    /// The findings of the policy
    #[schemars(with = "Vec<Finding>")]
    findings: Value,
    /// When it was asked for
    created_at: Moment,
    /// When it was decided
    decided_at: Option<Moment>,
}

impl From<&ApprovalRecord> for ApprovalSummary {
    fn from(record: &ApprovalRecord) -> Self {
        Self {
            cell_approval: record.into(),
            kind: record.subject.kind(),
            connection: AskedConnection::of(&record.subject),
            scope: record.scope.map(Scope::name),
            owner: record.tenant.as_str().to_owned(),
            sandbox: record.sandbox.as_str().to_owned(),
            cell: record.cell.clone(),
            policy: record.policy.clone(),
            findings: record.findings.clone(),
            created_at: Moment(record.created_at),
            decided_at: record.decided_at.map(Moment),
        }
    }
}

/// A connection that waits, or waited, for the approval of a person
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct AskedConnection {
    /// The host's name
    host: String,
    /// The port
    port: u16,
}

impl AskedConnection {
    fn of(subject: &Subject) -> Option<Self> {
        match subject {
            Subject::Code => None,
            Subject::Network { host, port } => Some(Self { host: host.clone(), port: *port }),
        }
    }
}

/// Code or a connection that waits, or waited, for the approval of a person
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Approval {
    #[serde(flatten)]
    pub(crate) summary: ApprovalSummary,
    /// The code, while it waits; in a list only up to 64 KiB
    pub(crate) code: Option<String>,
    /// Whether it waits and its sandbox is still live
    pub(crate) runnable: bool,
}

/// Approvals
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ApprovalList {
    /// The newest first
    pub(crate) approvals: Vec<Approval>,
}

impl LongText for ApprovalList {
    fn bytes_least(&self) -> u64 {
        0
    }
}
