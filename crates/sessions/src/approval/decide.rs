//! Deciding about what waits: by people, and by time.

use silica_store::approvals::{ApprovalRecord, Decided, Decision, State};
use silica_store::audit::Note;
use silica_store::{ApprovalId, Digest, Tenant};

use super::{Review, Verdict};
use crate::error::SessionError;
use crate::fairness::Admission;

/// What somebody says about something that waits.
#[derive(Clone, Debug)]
pub struct Word {
    /// Who says it.
    pub by: Tenant,
    /// Why.
    pub reason: Option<String>,
    /// The digest of the code that they looked at.
    pub sha256: Option<String>,
}

impl Review {
    /// What waits or was decided, newest first: everything, or what one key asked for.
    pub async fn list(
        &self,
        state: Option<State>,
        tenant: Option<&Tenant>,
    ) -> Result<Vec<ApprovalRecord>, SessionError> {
        Ok(self.0.store.approvals().list(state, tenant).await?)
    }

    /// One of them.
    pub async fn get(&self, id: &str) -> Result<ApprovalRecord, SessionError> {
        let missing = || SessionError::NoApproval(id.to_owned());
        let known = ApprovalId::parse(id).map_err(|_| missing())?;
        self.0.store.approvals().get(&known).await?.ok_or_else(missing)
    }

    /// Whether it could still run: its sandbox is there and waits for it.
    pub fn is_runnable(&self, record: &ApprovalRecord) -> bool {
        record.state == State::Pending && self.waiting().contains_key(&record.id)
    }

    /// Lets something run that waits. Whoever says so may go away at any moment; it holds all the same.
    pub async fn approve(
        &self,
        admission: &Admission,
        id: &str,
        word: Word,
    ) -> Result<ApprovalRecord, SessionError> {
        let (review, admission, id) = (self.clone(), admission.clone(), id.to_owned());
        let deciding = async move { review.let_run(&admission, &id, word).await };
        tokio::spawn(deciding).await.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn let_run(
        &self,
        admission: &Admission,
        id: &str,
        word: Word,
    ) -> Result<ApprovalRecord, SessionError> {
        let record = self.get(id).await?;
        if let Err(error) = self.may_approve(&record, &word) {
            self.note_refusal(&record, &word.by, &error).await?;
            return Err(error);
        }
        // First, so that what is approved has a place; without one it goes on waiting.
        let queued = admission.queue(&record.tenant)?;
        let (by, reason) = (word.by.clone(), word.reason);
        let decided = self.0.store.approvals().decide(&record.id, Decision::Approve { by, reason });
        let record = self.settle(decided.await?, &record, &word.by).await?;
        let waiter = self.waiting().remove(&record.id);
        let verdict = Verdict::Approved { record: Box::new(record.clone()), queued };
        self.tell(&record);
        if waiter.is_some_and(|waiter| waiter.send(verdict).is_ok()) {
            return Ok(record);
        }
        // It ended between the look and the word.
        let error = SessionError::ApprovalVoid(record.id.to_string());
        self.note_refusal(&record, &word.by, &error).await?;
        Err(error)
    }

    /// Has something never run that waits.
    pub async fn deny(&self, id: &str, word: Word) -> Result<ApprovalRecord, SessionError> {
        let (review, id) = (self.clone(), id.to_owned());
        let deciding = async move { review.never_run(&id, word).await };
        tokio::spawn(deciding).await.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn never_run(&self, id: &str, word: Word) -> Result<ApprovalRecord, SessionError> {
        let record = self.get(id).await?;
        if let Err(error) = is_pending(&record).and_then(|()| is_same(&record, &word)) {
            self.note_refusal(&record, &word.by, &error).await?;
            return Err(error);
        }
        let (by, reason) = (word.by.clone(), word.reason);
        let decided = self.0.store.approvals().decide(&record.id, Decision::Deny { by, reason });
        let record = self.settle(decided.await?, &record, &word.by).await?;
        self.refuse(&record);
        Ok(record)
    }

    /// Says no for those about whom nobody decided in time.
    pub(crate) async fn expire(&self) -> Result<(), SessionError> {
        for id in self.0.store.approvals().overdue().await? {
            // One that was decided this very moment needs no other end.
            if let Decided::Now(record) =
                self.0.store.approvals().decide(&id, Decision::Expire).await?
            {
                self.refuse(&record);
            }
        }
        Ok(())
    }

    /// Takes back what its owner does not want any more.
    pub(super) async fn withdraw(&self, id: &ApprovalId, by: &Tenant) {
        let reason = Some("its owner took it back".to_owned());
        let decision = Decision::Deny { by: by.clone(), reason };
        match self.0.store.approvals().decide(id, decision).await {
            Ok(Decided::Now(record)) => self.tell(&record),
            Ok(Decided::Before(_) | Decided::Unknown) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "a withdrawal could not be recorded");
            }
        }
    }

    fn refuse(&self, record: &ApprovalRecord) {
        let waiter = self.waiting().remove(&record.id);
        if let Some(waiter) = waiter {
            // A cell that has ended needs no word any more.
            let _ = waiter.send(Verdict::Refused(Box::new(record.clone())));
        }
        self.tell(record);
    }

    fn may_approve(&self, record: &ApprovalRecord, word: &Word) -> Result<(), SessionError> {
        is_pending(record)?;
        is_same(record, word)?;
        if record.tenant == word.by && !self.0.options.own {
            return Err(SessionError::OwnApproval(record.id.to_string()));
        }
        if !self.is_runnable(record) {
            return Err(SessionError::ApprovalVoid(record.id.to_string()));
        }
        Ok(())
    }

    /// What the store made of a decision; one that came too late is on record.
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

fn is_same(record: &ApprovalRecord, word: &Word) -> Result<(), SessionError> {
    let same = |seen: &String| seen.parse::<Digest>().is_ok_and(|seen| seen == record.sha256);
    if word.sha256.as_ref().is_none_or(same) {
        Ok(())
    } else {
        Err(SessionError::OtherCode(record.id.to_string()))
    }
}
