//! What the audit log says about a request: that it began, and how it ended, also if nobody waited.

use std::sync::Arc;

use silica_sessions::Sessions;
use silica_store::audit::{Activity, Begin, Finish, Note, Ticket};
use silica_store::{ExecutionId, StoreError, Tenant};

use super::{Answered, Ask, InterpretError, Shape, Talk};

/// A request that has begun. Dropped without an end it was abandoned, and the log says so.
pub(super) struct Recording {
    sessions: Arc<Sessions>,
    ticket: Option<Ticket>,
}

impl Recording {
    /// Writes that a request begins. The prompt is kept as code is: in full or as a digest.
    pub(super) fn begin(
        sessions: &Arc<Sessions>,
        tenant: &Tenant,
        ask: &Ask,
        model: &str,
        shape: Shape,
    ) -> impl Future<Output = Result<Self, StoreError>> + use<> {
        let begin = ExecutionId::random().map(|id| {
            let mut begin = Begin::new(id, tenant.clone(), Activity::Interpret);
            begin.code = Some(ask.prompt.clone());
            begin.details.insert("model".to_owned(), model.to_owned());
            begin.details.insert("shape".to_owned(), shape.name().to_owned());
            if let Talk::In(conversation) = &ask.conversation {
                begin.details.insert("conversation".to_owned(), conversation.clone());
            }
            begin
        });
        // Handed over now, waited for later.
        let written = begin.map(|begin| sessions.audit().begin(&begin));
        let sessions = Arc::clone(sessions);
        async move { Ok(Self { sessions, ticket: Some(written?.await?) }) }
    }

    pub(super) fn finished(self, answered: &Answered) {
        let mut finish = Finish::new(answered.ending.name());
        let usage = &answered.usage;
        let mut detail = |name: &str, value: String| finish.details.insert(name.to_owned(), value);
        detail("rounds", answered.attempts.len().to_string());
        detail("model_requests", usage.requests.to_string());
        detail("input_tokens", usage.tokens.input.to_string());
        detail("output_tokens", usage.tokens.output.to_string());
        if let Some(cost) = usage.cost {
            detail("cost_dollars", format!("{:.6}", cost.as_dollars()));
        }
        if let Some(sandbox) = &answered.sandbox {
            detail("sandbox", sandbox.clone());
        }
        self.end(&finish);
    }

    pub(super) fn failed(self, error: &InterpretError) {
        let mut finish = Finish::new("error");
        finish.error = Some(error.name().to_owned());
        self.end(&finish);
    }

    fn end(mut self, finish: &Finish) {
        if let Some(ticket) = self.ticket.take() {
            write(&self.sessions, ticket, finish);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            write(&self.sessions, ticket, &Finish::new("abandoned"));
        }
    }
}

/// Nobody waits for it; if it fails the log says what is true, that the request is not finished.
fn write(sessions: &Arc<Sessions>, ticket: Ticket, finish: &Finish) {
    let written = sessions.audit().finish(ticket, finish);
    tokio::spawn(async move {
        if let Err(error) = written.await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the end of a request to a model could not be recorded");
        }
    });
}

/// Notes a request that was turned away before it began.
pub(super) fn refusal(sessions: &Arc<Sessions>, tenant: &Tenant, error: &InterpretError) {
    let mut note = Note::new("interpret_refused").with("reason", error.name());
    note.tenant = Some(tenant.clone());
    let written = sessions.audit().note(note);
    tokio::spawn(async move {
        if let Err(error) = written.await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "a refused request could not be recorded");
        }
    });
}
