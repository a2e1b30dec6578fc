//! What is counted of the sessions of a server.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::cell::CellEnd;
use crate::session::EndReason;

/// What is counted since the start.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Sandboxes made.
    pub sandboxes_created: AtomicU64,
    /// Sandboxes ended, by the name of the reason.
    ended: Mutex<BTreeMap<&'static str, u64>>,
    observer: OnceLock<Arc<dyn Observer>>,
}

/// Whoever keeps statistics.
pub trait Observer: std::fmt::Debug + Send + Sync {
    /// A cell has ended.
    fn cell_ended(&self, end: &CellEnd);
}

impl Numbers {
    /// Sandboxes ended, by the name of the reason.
    pub fn ended(&self) -> BTreeMap<&'static str, u64> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells an observer from now on; the first is the only one.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        // A second one has no say.
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
