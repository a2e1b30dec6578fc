//! A semaphore that grants its permits round robin over the keys.
//!
//! Running code is never preempted, so one key could hold every permit for as long as its code runs. A few permits
//! are therefore reserved for keys that hold none.

#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use silica_store::Tenant;
use tokio::sync::oneshot;

/// How long [`Permit::spend`] holds a permit.
const HELD_MAX: Duration = Duration::from_millis(100);

/// How many permits there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PermitBounds {
    /// Permits for all keys together.
    pub(crate) total: usize,
    /// Permits of one key.
    pub(crate) per_key: usize,
    /// Permits beyond `total`, for keys that hold none.
    pub(crate) reserved: usize,
}

/// Grants permits. Clones share one state.
#[derive(Clone, Debug)]
pub(crate) struct FairSemaphore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bounds: PermitBounds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: usize,
    /// The keys that hold permits or wait for one.
    keys: HashMap<Tenant, Key>,
    /// The keys that wait for a permit; the first is the next to get one.
    order: VecDeque<Tenant>,
}

#[derive(Debug, Default)]
struct Key {
    held: usize,
    waiting: VecDeque<oneshot::Sender<Permit>>,
}

/// A permit, returned to the semaphore when it is dropped.
#[derive(Debug)]
pub struct Permit {
    /// `None` for a permit that was never delivered.
    holder: Option<(FairSemaphore, Tenant)>,
}

impl FairSemaphore {
    pub(crate) fn new(bounds: PermitBounds) -> Self {
        Self(Arc::new(Shared { bounds, state: Mutex::default() }))
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    pub(crate) async fn acquire(&self, tenant: &Tenant) -> Permit {
        let receiver = {
            let mut state = self.lock();
            let state = &mut *state;
            let (sender, receiver) = oneshot::channel();
            let key = state.keys.entry(tenant.clone()).or_default();
            if key.waiting.is_empty() {
                state.order.push_back(tenant.clone());
            }
            key.waiting.push_back(sender);
            self.grant(state);
            receiver
        };
        // The sender is in the state that `self` keeps alive until it sends.
        receiver.await.expect("the semaphore outlives its borrow")
    }

    /// Returns how many permits are held: by everyone, or by one key.
    pub(crate) fn held(&self, tenant: Option<&Tenant>) -> usize {
        let state = self.lock();
        match tenant {
            None => state.held,
            Some(tenant) => state.keys.get(tenant).map_or(0, |key| key.held),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters only: a panic while the lock is held leaves no broken invariant.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants permits to waiting keys, one key after the other, while one of them may have one.
    fn grant(&self, state: &mut State) {
        let PermitBounds { total, per_key, reserved } = self.0.bounds;
        let mut passed_over = 0;
        while state.held < total + reserved && passed_over < state.order.len() {
            let Some(tenant) = state.order.pop_front() else { return };
            let Entry::Occupied(mut entry) = state.keys.entry(tenant.clone()) else { continue };
            let key = entry.get_mut();
            key.waiting.retain(|waiting| !waiting.is_closed());
            let may = key.held == 0 || (state.held < total && key.held < per_key);
            if may && let Some(waiting) = key.waiting.pop_front() {
                let permit = Permit { holder: Some((self.clone(), tenant.clone())) };
                match waiting.send(permit) {
                    Ok(()) => {
                        key.held += 1;
                        state.held += 1;
                    }
                    // The receiver was dropped meanwhile. Dropping the permit as it is would lock again.
                    Err(mut permit) => drop(permit.holder.take()),
                }
            }
            if !key.waiting.is_empty() {
                passed_over = if may { 0 } else { passed_over + 1 };
                state.order.push_back(tenant);
            } else if key.held == 0 {
                entry.remove();
            }
        }
    }
}

impl Permit {
    /// Runs `work` under this permit, which is returned early if the work takes long: then the work waits for
    /// something, such as a template's first interpreter, and needs no processor.
    pub(crate) async fn spend<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if let Ok(done) = tokio::time::timeout(HELD_MAX, work.as_mut()).await {
            return done;
        }
        drop(self);
        work.await
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some((semaphore, tenant)) = self.holder.take() else { return };
        let mut state = semaphore.lock();
        let state = &mut *state;
        state.held -= 1;
        if let Entry::Occupied(mut entry) = state.keys.entry(tenant) {
            entry.get_mut().held -= 1;
            if entry.get().held == 0 && entry.get().waiting.is_empty() {
                entry.remove();
            }
        }
        semaphore.grant(state);
    }
}
