//! Connections that wait for a person: one approval for each host and port of a sandbox.
//!
//! The sandbox keeps the receiver of an answer for as long as it lives. A connection waits for the
//! answer for some seconds and is then refused; a later one finds the answer there.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use serde_json::json;
use silica_store::approvals::{ApprovalRecord, Asked, NewApproval, Scope, State, Subject};
use silica_store::{ApprovalId, SandboxId, Tenant, Timestamp};
use tokio::sync::watch;

use super::Review;
use crate::error::SessionError;
use crate::session::EndReason;

/// The name of the policy of approvals that concern connections.
const POLICY: &str = "network";

/// A connection that no rule allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionQuestion {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The cells that run, by id.
    pub(crate) cells: Vec<String>,
    /// The method and path of the request, where they are visible.
    pub(crate) request: Option<String>,
}

/// A person's answer, or that none came in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionAnswer {
    Allowed(Scope),
    Denied,
}

type Connections = HashMap<ApprovalId, watch::Sender<Option<ConnectionAnswer>>>;

impl Review {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        // A map: a panic while the lock is held leaves no broken invariant.
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a connection waits for approval. Returns the approval, and where its answer will
    /// be; as long as that is kept, the approval can be decided.
    pub(crate) async fn ask_connection(
        &self,
        tenant: &Tenant,
        sandbox: &SandboxId,
        question: &ConnectionQuestion,
    ) -> Result<(ApprovalRecord, watch::Receiver<Option<ConnectionAnswer>>), SessionError> {
        let id = ApprovalId::random()?;
        let (sender, receiver) = watch::channel(None);
        {
            let mut connections = self.connections();
            // Those of sandboxes that have ended.
            connections.retain(|_, sender| !sender.is_closed());
            // Before the approval is recorded: from then on it can be decided.
            connections.insert(id.clone(), sender);
        }
        let subject = Subject::Network { host: question.host.clone(), port: question.port };
        let new = NewApproval {
            id: id.clone(),
            tenant: tenant.clone(),
            code: subject.text(),
            subject,
            sandbox: sandbox.clone(),
            cell: question.cells.join(","),
            policy: POLICY.to_owned(),
            findings: json!([]),
            expires_at: Timestamp::now().after(self.0.options.timeout),
        };
        let refused = match self.0.store.approvals().ask(new).await {
            Ok(Asked::Waits(record)) => {
                self.publish(&record);
                return Ok((*record, receiver));
            }
            Ok(Asked::TooMany(count)) => SessionError::TooManyWait(count),
            Ok(Asked::Revoked) => {
                SessionError::Ended { id: sandbox.to_string(), reason: EndReason::Revoked }
            }
            Err(error) => error.into(),
        };
        self.connections().remove(&id);
        Err(refused)
    }

    /// Returns whether a sandbox waits for the answer of an approval.
    pub(super) fn connection_waits(&self, id: &ApprovalId) -> bool {
        self.connections().get(id).is_some_and(|sender| !sender.is_closed())
    }

    /// Hands a decision to the sandbox that asked.
    pub(super) fn answer_connection(&self, record: &ApprovalRecord) {
        let answer = match (record.state, record.scope) {
            (State::Approved, scope) => ConnectionAnswer::Allowed(scope.unwrap_or(Scope::Once)),
            (State::Denied | State::Expired, _) => ConnectionAnswer::Denied,
            (State::Pending, _) => return,
        };
        if let Some(sender) = self.connections().remove(&record.id) {
            sender.send_replace(Some(answer));
        }
    }
}
