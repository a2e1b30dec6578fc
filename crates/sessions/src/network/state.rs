//! The network of one session: its terms, its attachment, its refusals and its open questions.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use silica_domain::{
    EffectivePolicy, NetworkApproval, NetworkLimits, NetworkMode, NetworkPolicy, PolicyLayer,
};
use silica_egress::{Attachment, DenialRecord, NetworkUsage};
use silica_engine::GuestPrefix;
use silica_store::ApprovalId;
use tokio::sync::watch;

use super::record::{CELL_DENIALS_MAX, CellNetwork};
use super::request::NetworkTerms;
use super::sockets;
use crate::approval::ConnectionAnswer;

/// The most refusals that are kept for cells.
const DENIALS_MAX: usize = 256;

/// The most open questions and answers of one sandbox.
pub(super) const QUESTIONS_MAX: usize = 64;

/// A question about a host and port, and where its answer is.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) approval: ApprovalId,
    pub(super) answer: watch::Receiver<Option<ConnectionAnswer>>,
}

/// What clients see of a network.
#[derive(Clone, Debug)]
pub struct NetworkInfo {
    pub mode: NetworkMode,
    /// Whether a person is asked about hosts that no rule names.
    pub ask: bool,
    /// All policies, the operator's first.
    pub layers: Vec<PolicyLayer>,
    /// What people have allowed.
    pub approvals: Vec<NetworkApproval>,
    pub limits: NetworkLimits,
    /// The names of its secrets.
    pub secrets: Vec<String>,
    pub usage: NetworkUsage,
}

struct State {
    terms: Option<Arc<NetworkTerms>>,
    approvals: Vec<NetworkApproval>,
    attachment: Option<Arc<Attachment>>,
    questions: HashMap<(String, u16), Question>,
    /// The newest refusals, each with its number.
    denials: VecDeque<(u64, DenialRecord)>,
    denials_begun: u64,
}

/// The network of a session. A session without one has no terms.
pub(crate) struct SessionNetwork {
    /// What the operator forbids for all.
    floor: NetworkPolicy,
    state: Mutex<State>,
    /// Held while the network is changed, so that two changes do not mix.
    pub(super) changing: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for SessionNetwork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SessionNetwork").finish_non_exhaustive()
    }
}

/// A reading at the beginning of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkMark {
    usage: NetworkUsage,
    denials: u64,
}

impl SessionNetwork {
    pub(crate) fn new(terms: Option<Arc<NetworkTerms>>, floor: NetworkPolicy) -> Self {
        let state = State {
            terms,
            approvals: Vec::new(),
            attachment: None,
            questions: HashMap::new(),
            denials: VecDeque::new(),
            denials_begun: 0,
        };
        Self { floor, state: Mutex::new(state), changing: tokio::sync::Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment: a panic while the lock is held leaves no broken invariant.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the terms; `None` for a sandbox without a network.
    pub(crate) fn terms(&self) -> Option<Arc<NetworkTerms>> {
        self.lock().terms.clone()
    }

    /// Sets the terms and what people have allowed to the key before.
    pub(super) fn set_terms(&self, terms: Arc<NetworkTerms>, granted: Vec<NetworkApproval>) {
        let mut state = self.lock();
        state.terms = Some(terms);
        for approval in granted {
            if !state.approvals.contains(&approval) {
                state.approvals.push(approval);
            }
        }
    }

    pub(super) fn set_attachment(&self, attachment: Option<Arc<Attachment>>) {
        self.lock().attachment = attachment;
    }

    pub(super) fn attachment(&self) -> Option<Arc<Attachment>> {
        self.lock().attachment.clone()
    }

    /// Returns all policies over the sandbox; `None` for a sandbox without a network.
    pub(super) fn effective(&self) -> Option<EffectivePolicy> {
        let state = self.lock();
        let terms = state.terms.as_ref()?;
        Some(terms.effective(&self.floor, state.approvals.clone()))
    }

    /// Adds what a person has allowed; returns whether it is new.
    pub(super) fn approve(&self, approval: NetworkApproval) -> bool {
        let mut state = self.lock();
        let is_new = state.terms.is_some() && !state.approvals.contains(&approval);
        if is_new {
            state.approvals.push(approval);
        }
        is_new
    }

    /// Returns the placeholders of the secrets by name, so that a change of the network keeps them.
    pub(super) fn placeholders(&self) -> BTreeMap<String, String> {
        let state = self.lock();
        let secrets = state.terms.as_ref().map(|terms| terms.secrets.clone()).unwrap_or_default();
        secrets.into_iter().map(|secret| (secret.name, secret.placeholder)).collect()
    }

    pub(super) fn prefixes(&self) -> Vec<GuestPrefix> {
        self.effective().as_ref().map(sockets::prefixes).unwrap_or_default()
    }

    pub(super) fn question(&self, host: &str, port: u16) -> Option<Question> {
        self.lock().questions.get(&(host.to_owned(), port)).cloned()
    }

    /// Keeps a question; `false` if the sandbox has too many.
    pub(super) fn set_question(&self, host: &str, port: u16, question: Question) -> bool {
        let mut state = self.lock();
        let key = (host.to_owned(), port);
        if state.questions.len() >= QUESTIONS_MAX && !state.questions.contains_key(&key) {
            return false;
        }
        state.questions.insert(key, question);
        true
    }

    pub(super) fn has_room_for_question(&self) -> bool {
        self.lock().questions.len() < QUESTIONS_MAX
    }

    pub(super) fn remove_question(&self, host: &str, port: u16) {
        self.lock().questions.remove(&(host.to_owned(), port));
    }

    pub(super) fn note_denial(&self, denial: DenialRecord) {
        let mut state = self.lock();
        let number = state.denials_begun;
        state.denials_begun += 1;
        if state.denials.len() >= DENIALS_MAX {
            state.denials.pop_front();
        }
        state.denials.push_back((number, denial));
    }

    /// Reads what was used so far; `None` without a network.
    pub(crate) async fn mark(&self) -> Option<NetworkMark> {
        let attachment = self.attachment()?;
        let usage = attachment.usage().await;
        Some(NetworkMark { usage, denials: self.lock().denials_begun })
    }

    /// Returns what happened since a mark.
    pub(crate) async fn since(&self, mark: Option<NetworkMark>) -> Option<CellNetwork> {
        let mark = mark?;
        let attachment = self.attachment()?;
        // The reply comes after all events that happened before it.
        let usage = attachment.usage().await;
        let denied = {
            let state = self.lock();
            let since = state.denials.iter().filter(|(number, _)| *number >= mark.denials);
            since.take(CELL_DENIALS_MAX).map(|(_, denial)| denial.clone()).collect()
        };
        Some(CellNetwork::between(mark.usage, usage, denied))
    }

    /// Returns what clients see; `None` for a sandbox without a network.
    pub(crate) async fn info(&self) -> Option<NetworkInfo> {
        let terms = self.terms()?;
        let effective = self.effective()?;
        let usage = match self.attachment() {
            Some(attachment) => attachment.usage().await,
            None => NetworkUsage::default(),
        };
        Some(NetworkInfo {
            mode: effective.mode(),
            ask: terms.policy.ask(),
            layers: effective.layers().to_vec(),
            approvals: effective.approvals().to_vec(),
            limits: terms.limits.clone(),
            secrets: terms.secrets.iter().map(|secret| secret.name.clone()).collect(),
            usage,
        })
    }

    /// Takes the network away.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.attachment = None;
        // Their approvals can then no longer be approved.
        state.questions.clear();
    }
}
