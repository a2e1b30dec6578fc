//! What the audit log says about a request: that it began, and how it ended, also if the client left.

use silica_store::audit::{Activity, Begin, Finish, Note, Ticket};
use silica_store::{ExecutionId, Store, StoreError, Tenant};

use super::{ConversationRef, PromptAnswer, Shape};

/// A request that has begun. If it is dropped without an end, the log says that it was abandoned.
pub(super) struct Recording {
    store: Store,
    ticket: Option<Ticket>,
}

impl Recording {
    /// Records that a request begins. The prompt is kept as code is: in full, or as a digest.
    pub(super) fn begin(
        store: &Store,
        tenant: &Tenant,
        prompt: &str,
        conversation: &ConversationRef,
        model: &str,
        shape: Shape,
    ) -> impl Future<Output = Result<Self, StoreError>> + use<> {
        let begin = ExecutionId::random().map(|id| {
            let mut begin = Begin::new(id, tenant.clone(), Activity::Interpret);
            begin.code = Some(prompt.to_owned());
            begin.details.insert("model".to_owned(), model.to_owned());
            begin.details.insert("shape".to_owned(), shape.name().to_owned());
            if let ConversationRef::Existing(conversation) = conversation {
                begin.details.insert("conversation".to_owned(), conversation.clone());
            }
            begin
        });
        // Handed to the store now, awaited later.
        let written = begin.map(|begin| store.audit().begin(&begin));
        let store = store.clone();
        async move { Ok(Self { store, ticket: Some(written?.await?) }) }
    }

    pub(super) fn finished(self, answer: &PromptAnswer) {
        let mut finish = Finish::new(answer.ending.name());
        let usage = &answer.usage;
        let mut detail = |name: &str, value: String| finish.details.insert(name.to_owned(), value);
        detail("rounds", answer.attempts.len().to_string());
        detail("model_requests", usage.requests.to_string());
        detail("input_tokens", usage.tokens.input.to_string());
        detail("output_tokens", usage.tokens.output.to_string());
        if let Some(cost) = usage.cost {
            detail("cost_dollars", format!("{:.6}", cost.as_dollars()));
        }
        if let Some(sandbox) = &answer.sandbox {
            detail("sandbox", sandbox.clone());
        }
        self.end(&finish);
    }

    /// Records a failure by the name of its error.
    pub(super) fn failed(self, error: &str) {
        let mut finish = Finish::new("error");
        finish.error = Some(error.to_owned());
        self.end(&finish);
    }

    fn end(mut self, finish: &Finish) {
        if let Some(ticket) = self.ticket.take() {
            write(&self.store, ticket, finish);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            write(&self.store, ticket, &Finish::new("abandoned"));
        }
    }
}

/// Records an end in the background. If that fails, the log says what is true: that the request is not finished.
fn write(store: &Store, ticket: Ticket, finish: &Finish) {
    let written = store.audit().finish(ticket, finish);
    tokio::spawn(async move {
        if let Err(error) = written.await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the end of a request to a model could not be recorded");
        }
    });
}

/// Notes a request that was refused before it began, by the name of its error.
pub(super) fn refusal(store: &Store, tenant: &Tenant, error: &str) {
    let mut note = Note::new("interpret_refused").with("reason", error);
    note.tenant = Some(tenant.clone());
    let written = store.audit().note(note);
    tokio::spawn(async move {
        if let Err(error) = written.await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "a refused request could not be recorded");
        }
    });
}
