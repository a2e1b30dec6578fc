//! What is counted of the sessions of a server.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::cell::CellEnd;
use crate::session::EndReason;

/// What was counted since the server started.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Sandboxes created.
    pub sandboxes_created: AtomicU64,
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

    pub(crate) fn count_end(&self, reason: EndReason) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        *ended.entry(reason.name()).or_default() += 1;
    }
}
