//! Snapshots: states of sandboxes that are kept in memory, and sandboxes that start from them.
//!
//! A snapshot outlives its sandbox. It ends after its time, by its owner, with the key of its owner, with the zone or
//! with the server.
//!
//! Tests: `tests/it/server/branching.rs`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use silica_domain::{BranchOptions, LeftBehind};
use silica_engine::{Carried, Engine, Frozen};
use silica_store::audit::{Activity, Finish};
use silica_store::{SandboxId, SnapshotId, Tenant, Timestamp};
use tokio::sync::oneshot;

use crate::audit;
use crate::ending::Unclaimed;
use crate::error::SessionError;
use crate::network::NetworkTerms;
use crate::session::{NewSession, Purpose, SandboxTerms, Session};
use crate::sessions::Sessions;

/// The most snapshots of one key.
const SNAPSHOTS_MAX: usize = 16;

/// The most bytes of all images and files of one key's snapshots.
const SNAPSHOT_BYTES_MAX: u64 = 4 << 30;

/// How long a snapshot is kept.
const KEEP: Duration = Duration::from_hours(24);

/// The longest name.
const NAME_CHARS_MAX: usize = 100;

/// A kept state of a sandbox.
#[derive(Debug)]
pub struct SandboxSnapshot {
    id: SnapshotId,
    tenant: Tenant,
    name: Option<String>,
    sandbox: SandboxId,
    terms: SandboxTerms,
    network: Option<Arc<NetworkTerms>>,
    cells_begun: u64,
    created_at: Timestamp,
    expires_at: Timestamp,
    /// The engine whose zone holds the files.
    engine: Arc<Engine>,
    frozen: Frozen,
}

impl SandboxSnapshot {
    /// Returns its id.
    pub fn id(&self) -> &SnapshotId {
        &self.id
    }

    pub(crate) fn is_of(&self, tenant: &Tenant) -> bool {
        self.tenant == *tenant
    }

    /// Returns the name that its owner gave it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the sandbox that it was made of.
    pub fn sandbox(&self) -> &SandboxId {
        &self.sandbox
    }

    /// Returns when it was made.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Returns when it ends.
    pub fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    /// Returns how many bytes its memory and its files take.
    pub fn bytes(&self) -> u64 {
        self.frozen.image_bytes() + self.frozen.file_bytes()
    }

    /// Returns what the sandbox had and the snapshot has not.
    pub fn left_behind(&self) -> &[LeftBehind] {
        self.frozen.left_behind()
    }
}

/// The snapshots of a server.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<HashMap<SnapshotId, Arc<SandboxSnapshot>>>);

impl Snapshots {
    fn lock(&self) -> MutexGuard<'_, HashMap<SnapshotId, Arc<SandboxSnapshot>>> {
        // Each change is one insertion or removal: a panic while the lock is held breaks nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes what fits the test, outside of the lock: the end of a snapshot ends a sandbox.
    pub(crate) fn remove_if(&self, fits: impl Fn(&SandboxSnapshot) -> bool) -> usize {
        let removed: Vec<_> = self.lock().extract_if(|_, one| fits(one)).collect();
        removed.len()
    }

    fn check_quota(&self, tenant: &Tenant) -> Result<(), SessionError> {
        let all = self.lock();
        let own = || all.values().filter(|one| one.tenant == *tenant);
        let bytes: u64 = own().map(|one| one.bytes()).sum();
        if own().count() >= SNAPSHOTS_MAX || bytes >= SNAPSHOT_BYTES_MAX {
            return Err(SessionError::TooManySnapshots(SNAPSHOTS_MAX));
        }
        Ok(())
    }
}

impl Sessions {
    /// Keeps the state of a sandbox between two cells. The sandbox goes on.
    pub async fn snapshot(
        self: &Arc<Self>,
        session: &Arc<Session>,
        name: Option<String>,
        options: BranchOptions,
    ) -> Result<Arc<SandboxSnapshot>, SessionError> {
        session.ensure_open()?;
        if name.as_ref().is_some_and(|name| name.chars().count() > NAME_CHARS_MAX) {
            let message = format!("name must have at most {NAME_CHARS_MAX} characters");
            return Err(SessionError::Bad(message));
        }
        self.snapshots.check_quota(session.tenant())?;
        let sessions = Arc::clone(self);
        let session = Arc::clone(session);
        let (sender, receiver) = oneshot::channel();
        // In a task of its own, so that the record of it ends with it.
        tokio::spawn(async move {
            let made = sessions.keep_snapshot(&session, name, &options).await;
            if let Err(Ok(snapshot)) = sender.send(made) {
                sessions.snapshots.remove_if(|one| one.id == snapshot.id);
            }
        });
        receiver.await.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn keep_snapshot(
        self: &Arc<Self>,
        session: &Arc<Session>,
        name: Option<String>,
        options: &BranchOptions,
    ) -> Result<Arc<SandboxSnapshot>, SessionError> {
        let ticket = audit::begin_operation(session, Activity::Snapshot)?.await?;
        let made = self.freeze(session, options, Carried::Everything).await;
        let mut finish = Finish::new(if made.is_ok() { "ok" } else { "refused" });
        let id = SnapshotId::random()?;
        finish.details.insert("snapshot".to_owned(), id.to_string());
        audit::finish(session, ticket, &finish);
        let (engine, frozen, cells_begun) = made?;
        let created_at = Timestamp::now();
        let snapshot = Arc::new(SandboxSnapshot {
            id: id.clone(),
            tenant: session.tenant().clone(),
            name,
            sandbox: session.id().clone(),
            terms: session.terms.clone(),
            network: session.network.terms(),
            cells_begun,
            created_at,
            expires_at: created_at.after(KEEP),
            engine,
            frozen,
        });
        self.snapshots.lock().insert(id.clone(), Arc::clone(&snapshot));
        tokio::spawn(expire(Arc::downgrade(self), id));
        Ok(snapshot)
    }

    /// Returns the snapshots of a key, oldest first.
    pub fn snapshots(&self, tenant: &Tenant) -> Vec<Arc<SandboxSnapshot>> {
        let all = self.snapshots.lock();
        let mut own: Vec<_> = all.values().filter(|one| one.tenant == *tenant).cloned().collect();
        own.sort_by_key(|one| one.created_at);
        own
    }

    /// Returns a snapshot of a key.
    pub fn find_snapshot(
        &self,
        tenant: &Tenant,
        id: &str,
    ) -> Result<Arc<SandboxSnapshot>, SessionError> {
        let missing = || SessionError::NoSnapshot(id.to_owned());
        let parsed = SnapshotId::parse(id).map_err(|_| missing())?;
        let found = self.snapshots.lock().get(&parsed).cloned();
        found.filter(|snapshot| snapshot.tenant == *tenant).ok_or_else(missing)
    }

    /// Deletes a snapshot of a key.
    pub fn delete_snapshot(&self, tenant: &Tenant, id: &str) -> Result<(), SessionError> {
        let snapshot = self.find_snapshot(tenant, id)?;
        self.snapshots.remove_if(|one| one.id == snapshot.id);
        Ok(())
    }

    /// Makes a sandbox from a snapshot, with terms of its own where the request names them.
    pub async fn create_from(
        self: &Arc<Self>,
        snapshot: &Arc<SandboxSnapshot>,
        metadata: Option<BTreeMap<String, String>>,
        ttl: Option<Duration>,
    ) -> Result<Arc<Session>, SessionError> {
        if !self.is_open() {
            return Err(SessionError::ShuttingDown);
        }
        let terms = self.copied_terms(&snapshot.terms, metadata, ttl)?;
        let slot = self.admission().sandbox(&snapshot.tenant)?;
        let sessions = Arc::clone(self);
        let snapshot = Arc::clone(snapshot);
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let permit = sessions.admission().creating(&snapshot.tenant).await;
            let made = permit.spend(snapshot.engine.thaw(&snapshot.frozen)).await;
            let made = match made {
                Ok(created) => {
                    let tenant = snapshot.tenant.clone();
                    let cells_begun = snapshot.cells_begun;
                    let purpose = Purpose::Session;
                    let network = snapshot.network.clone();
                    sessions
                        .start_recorded(|id| NewSession {
                            id,
                            tenant,
                            purpose,
                            terms,
                            slot,
                            created,
                            network,
                            cells_begun,
                        })
                        .await
                }
                Err(error) => Err(error.into()),
            };
            if let Err(Ok(session)) = sender.send(made) {
                sessions.end(&session, crate::session::EndReason::Deleted).await;
            }
        });
        receiver.await.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn start_recorded(
        self: &Arc<Self>,
        new: impl FnOnce(SandboxId) -> NewSession,
    ) -> Result<Arc<Session>, SessionError> {
        let session = Session::start(new(SandboxId::random()?), self.services.clone());
        let unclaimed = Unclaimed::new(self, session);
        self.connect_network(unclaimed.session()).await?;
        self.record_new(unclaimed).await
    }
}

/// Ends a snapshot after its time.
async fn expire(sessions: Weak<Sessions>, id: SnapshotId) {
    tokio::time::sleep(KEEP).await;
    if let Some(sessions) = sessions.upgrade() {
        sessions.snapshots.remove_if(|one| one.id == id);
    }
}
