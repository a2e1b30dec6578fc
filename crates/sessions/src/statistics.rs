//! What is counted of the sessions of a server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::cell::CellEnd;
use crate::session::EndReason;

/// What was counted since the server started.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Sandboxes created.
    pub sandboxes_created: AtomicU64,
    /// Connections of sandboxes that were allowed and have ended.
    pub connections: AtomicU64,
    /// Connections, requests and look-ups of sandboxes that were refused.
    pub connections_denied: AtomicU64,
    /// Bytes that sandboxes have sent to other machines.
    pub network_bytes_up: AtomicU64,
    /// Bytes that sandboxes have received from other machines.
    pub network_bytes_down: AtomicU64,
    ended: Mutex<BTreeMap<&'static str, u64>>,
    observer: OnceLock<Arc<dyn CellObserver>>,
}

/// Receives an event for every finished cell.
pub trait CellObserver: std::fmt::Debug + Send + Sync {
    /// A cell has ended.
    fn cell_ended(&self, end: &CellEnd);
}

impl Statistics {
    /// Returns how many sandboxes have ended, by the name of the reason.
    pub fn ended(&self) -> BTreeMap<&'static str, u64> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the observer. Only the first call has an effect.
    pub fn observe(&self, observer: Arc<dyn CellObserver>) {
        // The error is that an observer is set already.
        let _ = self.observer.set(observer);
    }

    pub(crate) fn cell_ended(&self, end: &CellEnd) {
        if let Some(observer) = self.observer.get() {
            observer.cell_ended(end);
        }
    }

    pub(crate) fn count_connection(&self, bytes_up: u64, bytes_down: u64) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.network_bytes_up.fetch_add(bytes_up, Ordering::Relaxed);
        self.network_bytes_down.fetch_add(bytes_down, Ordering::Relaxed);
    }

    pub(crate) fn count_denial(&self, count: u64) {
        self.connections_denied.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count_end(&self, reason: EndReason) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        *ended.entry(reason.name()).or_default() += 1;
    }
}
