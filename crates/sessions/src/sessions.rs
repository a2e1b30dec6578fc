//! The registry of live sessions: finds them by id. `create` adds to it, `ending` removes from it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use silica_domain::LimitValues;
use silica_engine::Engine;
use silica_store::audit::Audit;
use silica_store::keys::Keys;
use silica_store::sandboxes::{SandboxRecord, Sandboxes};
use silica_store::{SandboxId, Store, Tenant, Timestamp};
use tokio::sync::{Notify, watch};

use crate::approval::{Review, ReviewOptions};
use crate::cpu_shares::share_loop;
use crate::create::check_seconds;
use crate::ending::expire_loop;
use crate::error::SessionError;
use crate::fairness::{Admission, Capacity, Quota};
use crate::kept::KeptOutput;
use crate::network::{NetworkOptions, Networks, apply_decisions};
use crate::revocation::revoke_loop;
use crate::session::{ExecutingSessions, LifeChange, Purpose, Session};
use crate::snapshots::Snapshots;
use crate::statistics::Statistics;

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct SessionsOptions {
    /// The default template.
    pub template: String,
    /// The default limits of a sandbox.
    pub limits: LimitValues,
    /// The default lifetime of a sandbox.
    pub ttl: Duration,
    /// The longest lifetime that a client may ask for.
    pub ttl_max: Duration,
    /// The default time without use after which a sandbox is ended; `None` for never.
    pub idle: Option<Duration>,
    /// The longest such time that a client may ask for; `None` for any.
    pub idle_max: Option<Duration>,
    /// The most cells that a sandbox may run.
    pub max_cells: u64,
    /// The default timeout of a cell.
    pub timeout: Duration,
    /// The longest timeout that a client may ask for.
    pub timeout_max: Duration,
    /// The quota of each key.
    pub quota: Quota,
    /// The capacity of the server.
    pub capacity: Capacity,
    /// How code is checked and approved.
    pub review: ReviewOptions,
    /// Which networks sandboxes may have.
    pub network: NetworkOptions,
}

/// What every session of a server shares. Clones share one state.
#[derive(Clone, Debug)]
pub(crate) struct Services {
    pub(crate) store: Store,
    pub(crate) admission: Admission,
    pub(crate) kept: KeptOutput,
    pub(crate) review: Review,
    pub(crate) networks: Networks,
    pub(crate) statistics: Arc<Statistics>,
    /// In how many sessions of each key something runs.
    pub(crate) executing: Arc<ExecutingSessions>,
    /// Notified when a session becomes active.
    pub(crate) cpu_changed: Arc<Notify>,
}

/// Sessions by id. Single runs are apart: no client can find them, but they end with the server.
#[derive(Debug, Default)]
struct Live {
    sessions: HashMap<SandboxId, Arc<Session>>,
    single_runs: HashMap<SandboxId, Arc<Session>>,
}

/// The live sessions of a server, with the engine and the store that they use.
#[derive(Debug)]
pub struct Sessions {
    engine: watch::Sender<Arc<Engine>>,
    options: SessionsOptions,
    pub(crate) services: Services,
    live: Mutex<Live>,
    pub(crate) snapshots: Snapshots,
    /// How many sessions have ended and still release resources.
    pub(crate) releasing: watch::Sender<usize>,
}

impl Sessions {
    /// Takes over an engine and a store. Sandboxes that the store lists as running were left by a server
    /// that stopped without ending them; they are recorded as lost.
    pub async fn start(
        engine: Engine,
        store: Store,
        options: SessionsOptions,
    ) -> Result<Arc<Self>, SessionError> {
        let lost = store.sandboxes().mark_lost("the server stopped without ending it").await?;
        if lost > 0 {
            tracing::warn!(lost, "sandboxes of a server that stopped suddenly are lost");
        }
        let admission = Admission::new(options.quota.clone(), options.capacity);
        let statistics = Arc::<Statistics>::default();
        let networks = Networks::new(&options.network, &store, &admission, &statistics);
        let services = Services {
            kept: KeptOutput::new(admission.clone()),
            admission,
            review: Review::new(options.review.clone(), store.clone()),
            networks,
            statistics,
            executing: Arc::default(),
            cpu_changed: Arc::default(),
            store,
        };
        let sessions = Arc::new(Self {
            engine: watch::Sender::new(Arc::new(engine)),
            options,
            services,
            live: Mutex::default(),
            snapshots: Snapshots::default(),
            releasing: watch::Sender::new(0),
        });
        tokio::spawn(expire_loop(Arc::downgrade(&sessions)));
        tokio::spawn(revoke_loop(Arc::downgrade(&sessions)));
        tokio::spawn(share_loop(Arc::downgrade(&sessions)));
        let news = sessions.review().news();
        tokio::spawn(apply_decisions(Arc::downgrade(&sessions), news));
        Ok(sessions)
    }

    /// Returns the current engine. Its zone may have died.
    pub fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine.borrow())
    }

    /// Returns an engine whose zone lives; waits until `until` for one that replaces a dead zone.
    pub(crate) async fn live_engine(&self, until: Instant) -> Result<Arc<Engine>, SessionError> {
        let engine = self.engine();
        if engine.is_alive() {
            return Ok(engine);
        }
        let mut engines = self.engine.subscribe();
        let replaced = engines.wait_for(|engine| engine.is_alive());
        let replaced = tokio::time::timeout_at(until.into(), replaced).await;
        let engine = replaced.ok().and_then(Result::ok).map(|engine| Arc::clone(&engine));
        engine.ok_or(SessionError::NoZone)
    }

    /// Replaces an engine whose zone has died. The new one is closed at once if the server is shutting down.
    pub async fn replace_engine(&self, engine: Arc<Engine>) {
        self.engine.send_replace(Arc::clone(&engine));
        // The shutdown may have closed the old engine just before it was replaced.
        if !self.is_open() {
            engine.close().await;
        }
    }

    /// Returns the keys of the server.
    pub fn keys(&self) -> Keys<'_> {
        self.services.store.keys()
    }

    /// Returns the audit log.
    pub fn audit(&self) -> Audit<'_> {
        self.services.store.audit()
    }

    /// Returns the records of sandboxes, of those that have ended too.
    pub fn records(&self) -> Sandboxes<'_> {
        self.services.store.sandboxes()
    }

    /// Returns what the operator decided.
    pub fn options(&self) -> &SessionsOptions {
        &self.options
    }

    /// Returns quotas, capacity and load.
    pub fn admission(&self) -> &Admission {
        &self.services.admission
    }

    /// Returns the check of code and the approvals.
    pub fn review(&self) -> &Review {
        &self.services.review
    }

    /// Returns what was counted since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.services.statistics
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        // Maps only: a panic while the lock is held leaves no broken invariant.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(self: &Arc<Self>, session: &Arc<Session>) {
        {
            let mut live = self.lock();
            let map = match session.purpose {
                Purpose::Session => &mut live.sessions,
                Purpose::SingleRun => &mut live.single_runs,
            };
            map.insert(session.id().clone(), Arc::clone(session));
        }
        self.services.cpu_changed.notify_one();
        // The key may have been revoked while the sandbox was made, when it could not be found yet.
        self.end_if_revoked(session);
    }

    /// Lets the owner of a single run find it, as any other session.
    pub(crate) fn publish(&self, session: &Arc<Session>) {
        let mut live = self.lock();
        live.single_runs.remove(session.id());
        live.sessions.insert(session.id().clone(), Arc::clone(session));
    }

    pub(crate) fn remove(&self, id: &SandboxId) {
        let mut live = self.lock();
        live.sessions.remove(id);
        live.single_runs.remove(id);
    }

    /// Returns the live sessions of all owners, without single runs.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.lock().sessions.values().cloned().collect()
    }

    /// Returns the live sessions of all owners and the single runs.
    pub fn all_with_single_runs(&self) -> Vec<Arc<Session>> {
        let live = self.lock();
        live.sessions.values().chain(live.single_runs.values()).cloned().collect()
    }

    /// Returns whether new sandboxes and executions are admitted.
    pub fn is_open(&self) -> bool {
        !self.admission().is_closed()
    }

    /// Returns a session of this owner.
    pub fn find(&self, tenant: &Tenant, id: &str) -> Result<Arc<Session>, SessionError> {
        let found = self.find_unchecked(id).filter(|session| session.tenant() == tenant);
        found.ok_or_else(|| SessionError::NoSandbox(id.to_owned()))
    }

    /// Returns a session of any owner. The caller must have checked a token or a signature of the sandbox.
    pub fn find_unchecked(&self, id: &str) -> Option<Arc<Session>> {
        self.lock().sessions.get(&SandboxId::parse(id).ok()?).cloned()
    }

    /// Returns the record of a sandbox of this owner, also if it has ended.
    pub async fn record(&self, tenant: &Tenant, id: &str) -> Result<SandboxRecord, SessionError> {
        let missing = || SessionError::NoSandbox(id.to_owned());
        let known = SandboxId::parse(id).map_err(|_| missing())?;
        let record = self.records().get(&known).await?;
        record.filter(|record| record.tenant == *tenant).ok_or_else(missing)
    }

    /// Sets or extends the lifetime of a session to `ttl` from now; returns when it expires.
    pub async fn set_life(
        &self,
        session: &Session,
        ttl: Duration,
        change: LifeChange,
    ) -> Result<Timestamp, SessionError> {
        check_seconds("ttl_seconds", ttl, self.options.ttl_max)?;
        session.set_life(ttl, change).await
    }
}
