//! The end of a key: its sandboxes end, and what it waits for expires.
//!
//! The store has the approvals of a key expire in the transaction that revokes it, so that none can be decided
//! afterwards, whichever process revoked the key. This server ends what runs for the key: at once if it revokes
//! the key itself, otherwise when it has noticed.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use silica_store::keys::{KEYS_AGE_MAX, Revocation};
use silica_store::{KeyId, Tenant};
use tokio::time::MissedTickBehavior;

use crate::error::SessionError;
use crate::session::{EndReason, Session};
use crate::sessions::Sessions;

impl Sessions {
    /// Revokes a key; returns when nothing runs for it any more. If the caller drops the future, the key is
    /// revoked all the same.
    pub async fn revoke(self: &Arc<Self>, id: &KeyId) -> Result<Revocation, SessionError> {
        let sessions = Arc::clone(self);
        let id = id.clone();
        let revoking = async move {
            let revocation = sessions.keys().revoke(&id).await?;
            if !matches!(revocation, Revocation::Unknown) {
                sessions.end_all_of(&Tenant::from(&id)).await?;
            }
            Ok(revocation)
        };
        tokio::spawn(revoking).await.unwrap_or(Err(SessionError::ShuttingDown))
    }

    /// Ends everything of a key that is revoked.
    async fn end_all_of(self: &Arc<Self>, tenant: &Tenant) -> Result<(), SessionError> {
        let own = |session: &Arc<Session>| session.tenant() == tenant;
        let end = |session: Arc<Session>| {
            let sessions = Arc::clone(self);
            tokio::spawn(async move { sessions.end_soon(session, EndReason::Revoked).await })
        };
        let ends: Vec<_> = self.all_with_single_runs().into_iter().filter(own).map(end).collect();
        self.snapshots.remove_if(|snapshot| snapshot.is_of(tenant));
        let refused = self.review().revoke(tenant).await;
        for end in ends {
            // The error is a panic of the task; the next look at the keys tries again.
            let _ = end.await;
        }
        refused
    }

    /// Ends a session in the background if the key of its owner is revoked.
    pub(crate) fn end_if_revoked(self: &Arc<Self>, session: &Arc<Session>) {
        if self.keys().is_revoked(session.tenant()).unwrap_or(false) {
            let sessions = Arc::clone(self);
            let session = Arc::clone(session);
            tokio::spawn(async move { sessions.end(&session, EndReason::Revoked).await });
        }
    }
}

/// Ends what runs for keys that another process has revoked, until the registry is dropped.
pub(crate) async fn revoke_loop(sessions: Weak<Sessions>) {
    let mut tick = tokio::time::interval(KEYS_AGE_MAX);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(sessions) = sessions.upgrade() else { return };
        let live = sessions.all_with_single_runs();
        let tenants: HashSet<&Tenant> = live.iter().map(|session| session.tenant()).collect();
        for tenant in tenants {
            let ended = match sessions.keys().is_revoked(tenant) {
                Ok(true) => sessions.end_all_of(tenant).await,
                Ok(false) => Ok(()),
                Err(error) => Err(error.into()),
            };
            if let Err(error) = ended {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "what runs for a revoked key could not be ended");
            }
        }
    }
}
