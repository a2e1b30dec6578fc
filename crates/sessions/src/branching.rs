//! Forking a session: copies of its sandbox that go on from the same state, each a session of its own.
//!
//! The kernel's task begins the branching between two cells, so that variables and files are those of one moment.
//! Everything after that happens here, while the original runs cells again.
//!
//! Tests: `tests/it/server/branching.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use silica_domain::{BranchOptions, LeftBehind};
use silica_engine::{Branch, BranchError, Branched, Carried, Created, Engine, Frozen, TWINS_MAX};
use silica_store::SandboxId;
use silica_store::audit::{Activity, Finish};
use tokio::sync::oneshot;

use crate::audit;
use crate::create::{check_metadata, check_seconds};
use crate::ending::Unclaimed;
use crate::error::SessionError;
use crate::fairness::QuotaSlot;
use crate::kernel::BranchJob;
use crate::session::{EndReason, NewSession, Purpose, SandboxTerms, Session};
use crate::sessions::Sessions;

/// How long a fork, a mark or an undo waits for the cell that the kernel runs.
pub(crate) const BUSY_PATIENCE: Duration = Duration::from_secs(10);

/// What is copied, and how often.
#[derive(Clone, Debug, Default)]
pub struct ForkRequest {
    /// How many copies are made; `None` is one.
    pub count: Option<usize>,
    /// Pairs of the copies; `None` for those of the original.
    pub metadata: Option<BTreeMap<String, String>>,
    /// How long the copies live; `None` as the original was to live when it was made.
    pub ttl: Option<Duration>,
    /// What is done with what cannot come along.
    pub options: BranchOptions,
}

/// The copies of a session.
#[derive(Debug)]
pub struct Forked {
    /// The new sessions.
    pub sessions: Vec<Arc<Session>>,
    /// What the original has and they have not.
    pub left_behind: Vec<LeftBehind>,
}

/// A request that passed admission.
struct AdmittedFork {
    terms: SandboxTerms,
    slots: Vec<QuotaSlot>,
    options: BranchOptions,
}

impl Sessions {
    /// Makes copies of a sandbox. If the caller drops the future, they are ended again.
    pub async fn fork(
        self: &Arc<Self>,
        session: &Arc<Session>,
        request: ForkRequest,
    ) -> Result<Forked, SessionError> {
        session.ensure_open()?;
        let admitted = self.admit_fork(session, request)?;
        let sessions = Arc::clone(self);
        let original = Arc::clone(session);
        let (sender, receiver) = oneshot::channel();
        // In a task of its own, so that it cannot be cancelled between a sandbox and its record.
        tokio::spawn(async move {
            let made = sessions.fork_recorded(&original, admitted).await;
            if let Err(Ok(forked)) = sender.send(made) {
                for session in forked.sessions {
                    sessions.end(&session, EndReason::Deleted).await;
                }
            }
        });
        receiver.await.unwrap_or(Err(SessionError::ShuttingDown))
    }

    /// Checks the request and reserves the quota of all copies.
    fn admit_fork(
        &self,
        session: &Session,
        request: ForkRequest,
    ) -> Result<AdmittedFork, SessionError> {
        let ForkRequest { count, metadata, ttl, options } = request;
        let count = count.unwrap_or(1);
        if !(1..=TWINS_MAX).contains(&count) {
            return Err(SessionError::Bad(format!("count must be from 1 to {TWINS_MAX}")));
        }
        let terms = self.copied_terms(&session.terms, metadata, ttl)?;
        let slot = |_| self.admission().sandbox(session.tenant());
        let slots = (0..count).map(slot).collect::<Result<Vec<_>, _>>()?;
        Ok(AdmittedFork { terms, slots, options })
    }

    /// Returns the terms of a copy: those of the original, but for what the request names.
    pub(crate) fn copied_terms(
        &self,
        original: &SandboxTerms,
        metadata: Option<BTreeMap<String, String>>,
        ttl: Option<Duration>,
    ) -> Result<SandboxTerms, SessionError> {
        let mut terms = original.clone();
        if let Some(metadata) = metadata {
            check_metadata(&metadata)?;
            terms.metadata = metadata;
        }
        if let Some(ttl) = ttl {
            check_seconds("ttl_seconds", ttl, self.options().ttl_max)?;
            terms.ttl = ttl;
        }
        Ok(terms)
    }

    async fn fork_recorded(
        self: &Arc<Self>,
        original: &Arc<Session>,
        admitted: AdmittedFork,
    ) -> Result<Forked, SessionError> {
        let AdmittedFork { terms, slots, options } = admitted;
        let begin = audit::begin_operation(original, Activity::Fork)?;
        let ticket = begin.await?;
        let made = self.make_twins(original, &options, slots.len()).await;
        let outcome = if made.is_ok() { "ok" } else { "refused" };
        let mut finish = Finish::new(outcome);
        let (twins, cells_begun, left_behind) = match made {
            Ok(made) => made,
            Err(error) => {
                audit::finish(original, ticket, &finish);
                return Err(error);
            }
        };
        let mut sessions = Vec::with_capacity(slots.len());
        for (created, slot) in twins.into_iter().zip(slots) {
            match self.start_twin(original, &terms, created, slot, cells_begun).await {
                Ok(session) => sessions.push(session),
                Err(error) => {
                    for session in sessions {
                        self.end(&session, EndReason::Deleted).await;
                    }
                    audit::finish(original, ticket, &Finish::new("refused"));
                    return Err(error);
                }
            }
        }
        let ids: Vec<&str> = sessions.iter().map(|session| session.id().as_str()).collect();
        finish.details.insert("sandboxes".to_owned(), ids.join(" "));
        audit::finish(original, ticket, &finish);
        Ok(Forked { sessions, left_behind })
    }

    /// Starts the session of a copy, and records it.
    async fn start_twin(
        self: &Arc<Self>,
        original: &Arc<Session>,
        terms: &SandboxTerms,
        created: Created,
        slot: QuotaSlot,
        cells_begun: u64,
    ) -> Result<Arc<Session>, SessionError> {
        let tenant = original.tenant().clone();
        let id = SandboxId::random()?;
        let terms = terms.clone();
        let purpose = Purpose::Session;
        // A twin has the original's rules and placeholders; its connections are its own.
        let network = original.network.terms();
        let new = NewSession { id, tenant, purpose, terms, slot, created, network, cells_begun };
        let session = Session::start(new, self.services.clone());
        let unclaimed = Unclaimed::new(self, session);
        self.connect_network(unclaimed.session()).await?;
        self.record_new(unclaimed).await
    }

    /// Makes the sandboxes: first with the memory that the original has of its own, and if its zygote has been
    /// replaced since, with all of it.
    async fn make_twins(
        &self,
        original: &Arc<Session>,
        options: &BranchOptions,
        count: usize,
    ) -> Result<(Vec<Created>, u64, Vec<LeftBehind>), SessionError> {
        let mut carried = Carried::OwnPages;
        loop {
            let permit = self.admission().creating(original.tenant()).await;
            let made = permit.spend(self.branch(original, options, carried, count)).await;
            match made {
                Err(SessionError::Branch(BranchError::OtherZygote))
                    if carried == Carried::OwnPages =>
                {
                    carried = Carried::Everything;
                }
                made => return made,
            }
        }
    }

    async fn branch(
        &self,
        original: &Arc<Session>,
        options: &BranchOptions,
        carried: Carried,
        count: usize,
    ) -> Result<(Vec<Created>, u64, Vec<LeftBehind>), SessionError> {
        let engine = self.engine();
        let (branch, cells_begun) = begin(&engine, original, options, carried).await?;
        let Branched { twins, left_behind } = engine.finish_branch(branch, count).await?;
        Ok((twins, cells_begun, left_behind))
    }
}

impl Sessions {
    /// Keeps the state of a sandbox. Returns the engine that holds it, too, and how many cells the kernel had begun.
    pub(crate) async fn freeze(
        &self,
        session: &Arc<Session>,
        options: &BranchOptions,
        carried: Carried,
    ) -> Result<(Arc<Engine>, Frozen, u64), SessionError> {
        let engine = self.engine();
        let permit = self.admission().creating(session.tenant()).await;
        let freezing = async {
            let (branch, cells_begun) = begin(&engine, session, options, carried).await?;
            let frozen = engine.freeze(branch).await?;
            Ok((frozen, cells_begun))
        };
        let frozen: Result<(Frozen, u64), SessionError> = permit.spend(freezing).await;
        frozen.map(|(frozen, cells_begun)| (Arc::clone(&engine), frozen, cells_begun))
    }
}

/// Has the kernel begin a branching, after the cell that it runs.
async fn begin(
    engine: &Arc<Engine>,
    session: &Arc<Session>,
    options: &BranchOptions,
    carried: Carried,
) -> Result<(Branch, u64), SessionError> {
    let (reply, begun) = oneshot::channel();
    let job = BranchJob { engine: Arc::clone(engine), options: *options, carried, reply };
    session.kernel(None)?.branch(job);
    match tokio::time::timeout(BUSY_PATIENCE, begun).await {
        Ok(Ok(begun)) => begun,
        // The kernel has ended.
        Ok(Err(_)) => Err(SessionError::NoKernel("k1".to_owned())),
        Err(_) => Err(SessionError::Busy(BUSY_PATIENCE)),
    }
}
