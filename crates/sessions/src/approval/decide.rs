//! Decisions about approvals: by people, and by time.

use silica_store::approvals::{ApprovalRecord, Decided, Decision, Scope, State, Subject};
use silica_store::audit::Note;
use silica_store::{ApprovalId, Digest, Tenant};

use super::{ApprovalOutcome, Review};
use crate::error::SessionError;
use crate::fairness::Admission;

/// A person's decision about an approval.
#[derive(Clone, Debug)]
pub struct DecisionRequest {
    /// The key that decides.
    pub by: Tenant,
    /// The reason that the person gives.
    pub reason: Option<String>,
    /// The digest of the code that the person looked at.
    pub sha256: Option<String>,
    /// How far the approval of a connection reaches; `None` is [`Scope::Once`].
    pub scope: Option<Scope>,
}

impl Review {
    /// Returns approvals, newest first: in one state or in all, for one key or for all.
    pub async fn list(
        &self,
        state: Option<State>,
        tenant: Option<&Tenant>,
    ) -> Result<Vec<ApprovalRecord>, SessionError> {
        Ok(self.0.store.approvals().list(state, tenant).await?)
    }

    /// Returns one approval.
    pub async fn get(&self, id: &str) -> Result<ApprovalRecord, SessionError> {
        let missing = || SessionError::NoApproval(id.to_owned());
        let known = ApprovalId::parse(id).map_err(|_| missing())?;
        self.0.store.approvals().get(&known).await?.ok_or_else(missing)
    }

    /// Returns whether its cell can still run, or its connection still be made: it is not decided, and
    /// its sandbox lives.
    pub fn is_runnable(&self, record: &ApprovalRecord) -> bool {
        let lives = || match record.subject {
            Subject::Code => self.waiting().contains_key(&record.id),
            Subject::Network { .. } => self.connection_waits(&record.id),
        };
        record.state == State::Pending && lives()
    }

    /// Approves: the cell is queued, or the connection made. The decision holds even if the caller drops the future.
    pub async fn approve(
        &self,
        admission: &Admission,
        id: &str,
        request: DecisionRequest,
    ) -> Result<ApprovalRecord, SessionError> {
        let review = self.clone();
        let admission = admission.clone();
        let id = id.to_owned();
        let deciding = async move { review.decide_approve(&admission, &id, request).await };
        tokio::spawn(deciding).await.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn decide_approve(
        &self,
        admission: &Admission,
        id: &str,
        request: DecisionRequest,
    ) -> Result<ApprovalRecord, SessionError> {
        let record = self.get(id).await?;
        if let Err(error) = self.may_approve(&record, &request) {
            self.note_refusal(&record, &request.by, &error).await?;
            return Err(error);
        }
        if let Subject::Network { .. } = record.subject {
            return self.approve_connection(&record, request).await;
        }
        // Before the decision: without a slot in the queue the approval stays pending.
        let slot = admission.queue(&record.tenant)?;
        let by = request.by.clone();
        let decision = Decision::Approve { by, reason: request.reason, scope: None };
        let decided = self.0.store.approvals().decide(&record.id, decision);
        let record = self.settle(decided.await?, &record, &request.by).await?;
        let waiter = self.waiting().remove(&record.id);
        let outcome = ApprovalOutcome::Approved { record: Box::new(record.clone()), slot };
        self.publish(&record);
        if waiter.is_some_and(|waiter| waiter.send(outcome).is_ok()) {
            return Ok(record);
        }
        // The cell ended after `may_approve` looked.
        let error = SessionError::ApprovalVoid(record.id.to_string());
        self.note_refusal(&record, &request.by, &error).await?;
        Err(error)
    }

    async fn approve_connection(
        &self,
        record: &ApprovalRecord,
        request: DecisionRequest,
    ) -> Result<ApprovalRecord, SessionError> {
        let scope = Some(request.scope.unwrap_or(Scope::Once));
        let by = request.by.clone();
        let decision = Decision::Approve { by, reason: request.reason, scope };
        let decided = self.0.store.approvals().decide(&record.id, decision);
        let record = self.settle(decided.await?, record, &request.by).await?;
        self.answer_connection(&record);
        self.publish(&record);
        Ok(record)
    }

    /// Denies: the cell never runs, or the connection is never made. The decision holds even if the caller drops the future.
    pub async fn deny(
        &self,
        id: &str,
        request: DecisionRequest,
    ) -> Result<ApprovalRecord, SessionError> {
        let review = self.clone();
        let id = id.to_owned();
        let deciding = async move { review.decide_deny(&id, request).await };
        tokio::spawn(deciding).await.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn decide_deny(
        &self,
        id: &str,
        request: DecisionRequest,
    ) -> Result<ApprovalRecord, SessionError> {
        let record = self.get(id).await?;
        if let Err(error) = is_pending(&record).and_then(|()| is_same_code(&record, &request)) {
            self.note_refusal(&record, &request.by, &error).await?;
            return Err(error);
        }
        let by = request.by.clone();
        let reason = request.reason;
        let decided = self.0.store.approvals().decide(&record.id, Decision::Deny { by, reason });
        let record = self.settle(decided.await?, &record, &request.by).await?;
        self.refuse(&record);
        Ok(record)
    }

    /// Denies the approvals that have expired.
    pub(crate) async fn expire(&self) -> Result<(), SessionError> {
        for id in self.0.store.approvals().overdue().await? {
            // An approval that was decided meanwhile stays as it is.
            if let Decided::Now(record) =
                self.0.store.approvals().decide(&id, Decision::Expire).await?
            {
                self.refuse(&record);
            }
        }
        Ok(())
    }

    /// Ends the cells of a key that waited for a decision. Its approvals expired when it was revoked.
    pub(crate) async fn revoke(&self, tenant: &Tenant) -> Result<(), SessionError> {
        for record in self.list(Some(State::Expired), Some(tenant)).await? {
            if self.waiting().contains_key(&record.id) || self.connection_waits(&record.id) {
                self.refuse(&record);
            }
        }
        Ok(())
    }

    /// Denies an approval in the name of the cell's owner, who interrupted the cell.
    pub(super) async fn withdraw(&self, id: &ApprovalId, by: &Tenant) {
        let reason = Some("its owner withdrew it".to_owned());
        let decision = Decision::Deny { by: by.clone(), reason };
        match self.0.store.approvals().decide(id, decision).await {
            Ok(Decided::Now(record)) => self.publish(&record),
            Ok(Decided::Before(_) | Decided::Unknown) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "a withdrawal could not be recorded");
            }
        }
    }

    /// Ends the cell of a denied approval, or refuses its connection.
    fn refuse(&self, record: &ApprovalRecord) {
        self.answer_connection(record);
        let waiter = self.waiting().remove(&record.id);
        if let Some(waiter) = waiter {
            // The error is that the cell has ended.
            let _ = waiter.send(ApprovalOutcome::Denied(Box::new(record.clone())));
        }
        self.publish(record);
    }

    fn may_approve(
        &self,
        record: &ApprovalRecord,
        request: &DecisionRequest,
    ) -> Result<(), SessionError> {
        is_pending(record)?;
        is_same_code(record, request)?;
        if record.subject == Subject::Code && request.scope.is_some() {
            let words = "scope is for connections; the approval of code is for this code alone";
            return Err(SessionError::Bad(words.to_owned()));
        }
        if record.tenant == request.by && !self.0.options.own {
            return Err(SessionError::OwnApproval(record.id.to_string()));
        }
        if !self.is_runnable(record) {
            return Err(SessionError::ApprovalVoid(record.id.to_string()));
        }
        Ok(())
    }

    /// Returns the decided record. A decision that came too late is noted in the audit log.
    async fn settle(
        &self,
        decided: Decided,
        record: &ApprovalRecord,
        by: &Tenant,
    ) -> Result<ApprovalRecord, SessionError> {
        let error = match decided {
            Decided::Now(record) => return Ok(record),
            Decided::Before(record) => already(&record),
            Decided::Unknown => SessionError::NoApproval(record.id.to_string()),
        };
        self.note_refusal(record, by, &error).await?;
        Err(error)
    }

    /// Notes in the audit log that a decision was refused.
    async fn note_refusal(
        &self,
        record: &ApprovalRecord,
        by: &Tenant,
        why: &SessionError,
    ) -> Result<(), SessionError> {
        let mut note = Note::new("approval_refused")
            .with("approval", record.id.as_str())
            .with("by", by.as_str())
            .with("because", &why.to_string());
        note.tenant = Some(record.tenant.clone());
        note.sandbox = Some(record.sandbox.clone());
        self.0.store.audit().note(note).await?;
        Ok(())
    }
}

fn already(record: &ApprovalRecord) -> SessionError {
    SessionError::AlreadyDecided { id: record.id.to_string(), state: record.state }
}

fn is_pending(record: &ApprovalRecord) -> Result<(), SessionError> {
    if record.state == State::Pending { Ok(()) } else { Err(already(record)) }
}

fn is_same_code(record: &ApprovalRecord, request: &DecisionRequest) -> Result<(), SessionError> {
    let same = |seen: &String| seen.parse::<Digest>().is_ok_and(|seen| seen == record.sha256);
    if request.sha256.as_ref().is_none_or(same) {
        Ok(())
    } else {
        Err(SessionError::OtherCode(record.id.to_string()))
    }
}
