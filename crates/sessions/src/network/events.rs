//! What the egress process reports, on its way to sessions and to the audit log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use silica_domain::{DnsName, NetworkApproval};
use silica_egress::{
    AskRefused, ConnectionRecord, DenialRecord, EgressEvents, ModelTokens, NetworkQuestion,
    PendingAnswer, ProcessChange,
};
use silica_store::approvals::{ApprovalRecord, Scope, State as Standing, Subject};
use silica_store::audit::Note;
use silica_store::{Store, Tenant};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::{ask, record};
use crate::fairness::Admission;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::statistics::Statistics;

/// Receives the tokens that models used for code in sandboxes.
pub type TokenCounter = Arc<dyn Fn(&Tenant, &ModelTokens) + Send + Sync>;

/// Hands what the egress process reports to sessions and to the audit log.
pub(crate) struct NetworkEvents {
    store: Store,
    admission: Admission,
    statistics: Arc<Statistics>,
    tokens: Option<TokenCounter>,
    sessions: Mutex<HashMap<String, Weak<Session>>>,
}

impl NetworkEvents {
    pub(crate) fn new(
        store: Store,
        admission: Admission,
        statistics: Arc<Statistics>,
        tokens: Option<TokenCounter>,
    ) -> Self {
        Self { store, admission, statistics, tokens, sessions: Mutex::default() }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Weak<Session>>> {
        // A map: a panic while the lock is held leaves no broken invariant.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a session known, to which events of its sandbox go from then on.
    pub(super) fn insert(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions();
        sessions.retain(|_, session| session.strong_count() > 0);
        sessions.insert(session.id().to_string(), Arc::downgrade(session));
    }

    fn find(&self, sandbox: &str) -> Option<Arc<Session>> {
        self.sessions().get(sandbox)?.upgrade()
    }

    /// Writes a note soon, and counts it for its owner.
    fn note(&self, note: Note) {
        let tenant = note.tenant.clone();
        let write = self.store.audit().note(note);
        if let Some(tenant) = &tenant {
            self.admission.charge_record(tenant, write.bytes());
        }
        write.put_aside(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "a connection could not be recorded");
        });
    }
}

impl EgressEvents for NetworkEvents {
    fn finished(&self, sandbox: &str, _key: &str, record: ConnectionRecord) {
        self.statistics.count_connection(record.bytes_up, record.bytes_down);
        if let Some(session) = self.find(sandbox) {
            let cells = session.running_cells().join(",");
            self.note(record::connection_note(session.tenant(), session.id(), &cells, &record));
        }
    }

    fn denied(&self, sandbox: &str, _key: &str, denial: DenialRecord) {
        self.statistics.count_denial(denial.count);
        if let Some(session) = self.find(sandbox) {
            let cells = session.running_cells().join(",");
            self.note(record::denial_note(session.tenant(), session.id(), &cells, &denial));
            session.network.note_denial(denial);
        }
    }

    fn model_tokens(&self, _sandbox: &str, key: &str, tokens: ModelTokens) {
        if let (Some(count), Ok(tenant)) = (&self.tokens, Tenant::parse(key)) {
            count(&tenant, &tokens);
        }
    }

    fn process_changed(&self, change: ProcessChange) {
        let note = match change {
            ProcessChange::Started(process) => {
                tracing::info!(process, "the egress process runs");
                Note::new("egress_started")
            }
            ProcessChange::Died => {
                tracing::error!("the egress process has died; connections of sandboxes broke");
                Note::new("egress_died")
            }
            ProcessChange::Lost { sandbox } => {
                tracing::error!(sandbox, "a sandbox has lost its network");
                Note::new("network_lost").with("sandbox", &sandbox)
            }
        };
        self.note(note);
    }

    fn ask(
        &self,
        question: NetworkQuestion,
    ) -> BoxFuture<'static, Result<PendingAnswer, AskRefused>> {
        let session = self.find(&question.sandbox);
        async move {
            match session {
                Some(session) => ask::ask(session, question).await,
                None => Err(AskRefused("the sandbox has ended".to_owned())),
            }
        }
        .boxed()
    }
}

/// Adds what people allow to the sandboxes that it is for, also if no connection waits any more.
pub(crate) async fn apply_decisions(
    sessions: Weak<Sessions>,
    mut news: broadcast::Receiver<ApprovalRecord>,
) {
    loop {
        let record = match news.recv().await {
            Ok(record) => record,
            // The sandbox finds the answer when it asks again.
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let Some(sessions) = sessions.upgrade() else { return };
        apply(&sessions, &record).await;
    }
}

async fn apply(sessions: &Sessions, record: &ApprovalRecord) {
    let Subject::Network { host, port } = &record.subject else { return };
    let Ok(name) = host.parse::<DnsName>() else { return };
    let is_for = |session: &Session| match (record.state, record.scope) {
        (Standing::Approved, Some(Scope::Key)) => *session.tenant() == record.tenant,
        (Standing::Approved, Some(Scope::Sandbox)) => *session.id() == record.sandbox,
        _ => false,
    };
    let live = sessions.all_with_single_runs();
    for session in live.into_iter().filter(|session| is_for(session)) {
        let asks = session.network.terms().is_some_and(|terms| terms.policy.ask());
        let approval = NetworkApproval { name: name.clone(), port: *port };
        if !asks || !session.network.approve(approval) {
            continue;
        }
        if let (Some(attachment), Some(policy)) =
            (session.network.attachment(), session.network.effective())
            && let Err(error) = attachment.update(policy).await
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, sandbox = %session.id(), "an approval waits for the next change");
        }
    }
}
