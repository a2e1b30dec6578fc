//! The registry of live sessions: finds them by id. `create` adds to it, `ending` removes from it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use silica_domain::LimitValues;
use silica_engine::Engine;
use silica_store::sandboxes::SandboxRecord;
use silica_store::{SandboxId, Store, Tenant, Timestamp};
use tokio::sync::watch;

use crate::approval::{Review, ReviewOptions};
use crate::ending::look_after;
use crate::error::SessionError;
use crate::fairness::{Admission, Capacity, Quota};
use crate::session::{LifeChange, Session};
use crate::statistics::Numbers;

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct SessionsOptions {
    /// The template of those who name none.
    pub template: String,
    /// Limits of those who name none.
    pub limits: LimitValues,
    /// How long a sandbox lives, and at most.
    pub ttl: Duration,
    /// The longest life that can be asked for.
    pub ttl_max: Duration,
    /// After what time without use a sandbox is ended, unless its owner says otherwise.
    pub idle: Option<Duration>,
    /// The longest such time that can be asked for.
    pub idle_max: Option<Duration>,
    /// How many cells a sandbox may run.
    pub max_cells: u64,
    /// How long a cell may take, unless its owner says otherwise.
    pub timeout: Duration,
    /// The longest time that can be asked for.
    pub timeout_max: Duration,
    /// What each key may use.
    pub quota: Quota,
    /// What the server takes on.
    pub capacity: Capacity,
    /// How code is checked, and who is asked about it.
    pub review: ReviewOptions,
}

/// All sessions of a server.
#[derive(Debug)]
pub struct Sessions {
    engine: Mutex<Arc<Engine>>,
    pub(crate) store: Store,
    options: SessionsOptions,
    pub(crate) admission: Admission,
    pub(crate) review: Review,
    pub(crate) numbers: Arc<Numbers>,
    live: Mutex<HashMap<SandboxId, Arc<Session>>>,
    /// How many are not live any more and still hold something.
    pub(crate) clearing_up: watch::Sender<usize>,
}

impl Sessions {
    /// Takes over an engine and a store. Sandboxes that a server before left running are lost.
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
        let review = Review::new(options.review.clone(), store.clone());
        let sessions = Arc::new(Self {
            engine: Mutex::new(Arc::new(engine)),
            store,
            options,
            admission,
            review,
            numbers: Arc::default(),
            live: Mutex::default(),
            clearing_up: watch::Sender::new(0),
        });
        tokio::spawn(look_after(Arc::downgrade(&sessions)));
        Ok(sessions)
    }

    /// The engine: the present one, whose zone may have died.
    pub fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another engine in the place of one whose zone has died. If nothing new is taken on any more,
    /// it is closed again.
    pub async fn replace_engine(&self, engine: Arc<Engine>) {
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&engine);
        // Whoever closed the last one may have done so before it was replaced.
        if !self.is_open() {
            engine.close().await;
        }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What the operator decided.
    pub fn options(&self) -> &SessionsOptions {
        &self.options
    }

    /// Who may have what.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The check of code, and what waits for a person.
    pub fn review(&self) -> &Review {
        &self.review
    }

    /// What was counted.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Session>>> {
        // A map has no invariant that a panic elsewhere could have broken halfway.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every live session, of everybody.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.lock().values().cloned().collect()
    }

    /// Whether it takes on anything new.
    pub fn is_open(&self) -> bool {
        !self.admission.is_closed()
    }

    /// A session, for its owner.
    pub fn find(&self, tenant: &Tenant, id: &str) -> Result<Arc<Session>, SessionError> {
        let missing = || SessionError::NoSandbox(id.to_owned());
        let id = SandboxId::parse(id).map_err(|_| missing())?;
        let found = self.lock().get(&id).cloned();
        let theirs = |session: &Arc<Session>| session.tenant() == tenant && !session.is_single();
        found.filter(theirs).ok_or_else(missing)
    }

    /// A session, whoever asks: for those who have shown something better than its owner's key.
    pub fn find_for_anybody(&self, id: &str) -> Option<Arc<Session>> {
        let found = self.lock().get(&SandboxId::parse(id).ok()?).cloned();
        found.filter(|session| !session.is_single())
    }

    /// What is recorded of a sandbox that is not live any more, for its owner.
    pub async fn record(&self, tenant: &Tenant, id: &str) -> Result<SandboxRecord, SessionError> {
        let missing = || SessionError::NoSandbox(id.to_owned());
        let known = SandboxId::parse(id).map_err(|_| missing())?;
        let record = self.store.sandboxes().get(&known).await?;
        record.filter(|record| record.tenant == *tenant).ok_or_else(missing)
    }

    /// Has a session live for so long from now.
    pub async fn set_life(
        &self,
        session: &Session,
        ttl: Duration,
        change: LifeChange,
    ) -> Result<Timestamp, SessionError> {
        let most = self.options.ttl_max;
        if ttl.is_zero() || ttl > most {
            let (ttl, most) = (ttl.as_secs(), most.as_secs());
            let words =
                format!("{ttl} more seconds cannot be had; at most {most} are allowed here");
            return Err(SessionError::Bad(words));
        }
        session.set_life(ttl, change).await
    }
}
