//! Connections to servers in sandboxes that wait for another request, so that the parts of a page
//! share them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use silica_store::SandboxId;
use tokio::time::Instant;

use super::Target;
use crate::http::problem::{Code, Problem};

/// How long a connection waits for another request.
const KEPT_PATIENCE: Duration = Duration::from_secs(30);

/// The most connections to one sandbox that wait. Each counts for the key of its owner, so that they
/// must be few.
const KEPT_MAX: usize = 8;

/// How long a connection may take to be ready for another request after a response.
const READY_PATIENCE: Duration = Duration::from_secs(1);

/// The largest head of a response.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The most fields of the head of a response.
const FIELDS_MAX: usize = 100;

/// The connections that wait, by sandbox.
#[derive(Debug, Default)]
pub(crate) struct KeptConnections(Mutex<HashMap<SandboxId, Vec<Kept>>>);

#[derive(Debug)]
struct Kept {
    port: u16,
    sender: SendRequest<Body>,
    until: Instant,
}

impl KeptConnections {
    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Vec<Kept>>> {
        // A map of connections has no invariant that a panic elsewhere could have broken halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection that can be used at once.
    pub(super) fn take(&self, target: &Target) -> Option<SendRequest<Body>> {
        let mut all = self.lock();
        let waiting = all.get_mut(target.session.id())?;
        let now = Instant::now();
        waiting.retain(|kept| now < kept.until && kept.sender.is_ready());
        // The last one has waited for the shortest time.
        let at = waiting.iter().rposition(|kept| kept.port == target.port)?;
        Some(waiting.remove(at).sender)
    }

    /// Makes a connection, which ends with its sandbox.
    pub(super) async fn connect(&self, target: &Target) -> Result<SendRequest<Body>, Problem> {
        let connection = target.session.connect_port(target.port).await?;
        let (sender, driver) = Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(FIELDS_MAX)
            .handshake(TokioIo::new(connection))
            .await
            .map_err(|_| Problem::new(Code::PortClosed, "the connection was closed at once"))?;
        let session = Arc::clone(&target.session);
        tokio::spawn(async move {
            tokio::select! {
                // How it ends is reported to the request that is being answered.
                _ = driver.with_upgrades() => {}
                () = session.ended() => {}
            }
        });
        Ok(sender)
    }

    /// Keeps a connection whose response was read to its end.
    pub(super) fn put(self: Arc<Self>, mut sender: SendRequest<Body>, target: Target) {
        // There is no runtime when the process ends.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let ready = tokio::time::timeout(READY_PATIENCE, sender.ready()).await;
            if !matches!(ready, Ok(Ok(()))) || target.session.end_reason().is_some() {
                return;
            }
            let Target { session, port } = target;
            let sandbox = session.id().clone();
            // A connection that waits must not keep the session.
            drop(session);
            {
                let mut all = self.lock();
                let waiting = all.entry(sandbox.clone()).or_default();
                if waiting.len() >= KEPT_MAX {
                    // The one that has waited for the longest time.
                    waiting.remove(0);
                }
                waiting.push(Kept { port, sender, until: Instant::now() + KEPT_PATIENCE });
            }
            tokio::time::sleep(KEPT_PATIENCE).await;
            self.sweep(&sandbox);
        });
    }

    /// Closes the connections to a sandbox that have waited for too long.
    fn sweep(&self, sandbox: &SandboxId) {
        let mut all = self.lock();
        let now = Instant::now();
        if let Some(waiting) = all.get_mut(sandbox) {
            waiting.retain(|kept| now < kept.until && !kept.sender.is_closed());
            if waiting.is_empty() {
                all.remove(sandbox);
            }
        }
    }
}
