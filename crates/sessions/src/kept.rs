//! Output and results that are kept for clients, counted in the budget of their key.
//!
//! When the budget of a key is used up, the output of its oldest cells and commands is dropped, of those that have
//! ended and that no client is reading. When the server's budget is used up, the key that holds the most loses its
//! oldest output. A cell or command without its output still reports how it ended, and how many bytes are left out.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use silica_store::Tenant;

use crate::fairness::{Admission, BudgetHolder, Reservation, Resource};

/// How much is reserved ahead while output grows.
const STEP_BYTES: u64 = 16 * 1024;

/// How many entries a key may have before those whose sandbox is gone are removed.
const ENTRIES_MIN: usize = 256;

/// A cell or command that may have output.
pub(crate) trait HasOutput: Send + Sync + std::fmt::Debug {
    /// Drops its output and results. Returns false if it has not ended, or if a client is reading them: then dropping
    /// them would free no memory.
    fn drop_output(&self) -> bool;
}

/// What is kept, by key. Clones share one state.
#[derive(Clone, Debug)]
pub(crate) struct KeptOutput(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    admission: Admission,
    keys: Mutex<HashMap<Tenant, Entries>>,
}

/// The cells and commands of one key that have ended, oldest first.
#[derive(Debug, Default)]
struct Entries {
    ended: VecDeque<Weak<dyn HasOutput>>,
    /// The number of entries at which those that are gone are removed.
    prune_at: usize,
}

impl KeptOutput {
    pub(crate) fn new(admission: Admission) -> Self {
        Self(Arc::new(Shared { admission, keys: Mutex::default() }))
    }

    /// Begins to count what a cell or command of a key keeps.
    pub(crate) fn begin(&self, tenant: &Tenant) -> KeptBytes {
        let reservation = self.0.admission.hold(tenant, Resource::KeptBytes);
        KeptBytes { kept: self.clone(), tenant: tenant.clone(), reservation, used: 0 }
    }

    /// Notes that a cell or command of a key has ended: its output may be dropped from now on.
    pub(crate) fn ended(&self, tenant: &Tenant, item: Weak<dyn HasOutput>) {
        let mut keys = self.lock();
        let entries = keys.entry(tenant.clone()).or_default();
        entries.ended.push_back(item);
        if entries.ended.len() > entries.prune_at {
            entries.ended.retain(|item| item.strong_count() > 0);
            entries.prune_at = (2 * entries.ended.len()).max(ENTRIES_MIN);
        }
    }

    /// Drops the oldest output of a key that can be dropped. Returns false if there is none.
    fn drop_oldest(&self, tenant: &Tenant) -> bool {
        let mut index = 0;
        loop {
            let item = {
                let mut keys = self.lock();
                let Some(entries) = keys.get_mut(tenant) else { return false };
                let Some(item) = entries.ended.get(index).map(Weak::upgrade) else {
                    if entries.ended.is_empty() {
                        keys.remove(tenant);
                    }
                    return false;
                };
                if item.is_none() {
                    entries.ended.remove(index);
                }
                item
            };
            // The lock is released: the item has a lock of its own.
            let Some(item) = item else { continue };
            if item.drop_output() {
                self.forget(tenant, &item);
                return true;
            }
            index += 1;
        }
    }

    fn forget(&self, tenant: &Tenant, item: &Arc<dyn HasOutput>) {
        if let Some(entries) = self.lock().get_mut(tenant) {
            entries.ended.retain(|known| !std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(item)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, Entries>> {
        // Lists only: a panic while the lock is held leaves no broken invariant.
        self.0.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes that one cell or command keeps. They are given back when this is dropped.
#[derive(Debug)]
pub(crate) struct KeptBytes {
    kept: KeptOutput,
    tenant: Tenant,
    reservation: Reservation,
    used: u64,
}

impl KeptBytes {
    /// Counts more bytes. Returns false, and counts nothing, if the budget does not allow them though all older output
    /// was dropped.
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        let used = self.used + bytes;
        if used > self.reservation.amount() && !self.reserve(used.next_multiple_of(STEP_BYTES)) {
            return false;
        }
        self.used = used;
        true
    }

    fn reserve(&mut self, amount: u64) -> bool {
        let more = amount - self.reservation.amount();
        loop {
            let Err(full) = self.reservation.try_grow(more) else { return true };
            let admission = &self.kept.0.admission;
            let holder = match full {
                BudgetHolder::Key => Some(self.tenant.clone()),
                BudgetHolder::Server => admission.largest_holder(Resource::KeptBytes),
            };
            if !holder.is_some_and(|holder| self.kept.drop_oldest(&holder)) {
                admission.note_refusal(Resource::KeptBytes);
                return false;
            }
        }
    }

    /// Counts fewer bytes.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
        self.settle();
    }

    /// Gives back what was reserved ahead.
    pub(crate) fn settle(&mut self) {
        self.reservation.shrink(self.reservation.amount() - self.used);
    }
}
