//! Turns: so many at a time, so many of them for one key, and one key after the other.
//!
//! Nobody is interrupted for somebody else's sake, so a key could hold all turns for as long as its code runs.
//! A few are therefore kept for keys that have none.

#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use silica_store::Tenant;
use tokio::sync::oneshot;

/// How long a turn is held for work that may take much longer for reasons of its own.
const HELD_MAX: Duration = Duration::from_millis(100);

/// How many turns there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// At a time.
    pub(crate) most: usize,
    /// Of those, for one key.
    pub(crate) for_one: usize,
    /// Beside those, for keys that have none.
    pub(crate) kept: usize,
}

/// Gives out turns.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// Those that have turns or wait for some.
    keys: HashMap<Tenant, Key>,
    /// Those that wait, the next first.
    order: VecDeque<Tenant>,
}

#[derive(Debug, Default)]
struct Key {
    taken: usize,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// A turn; the next gets one when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    /// None for one that nobody has got.
    of: Option<(Turns, Tenant)>,
}

impl Turns {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self(Arc::new(Shared { bounds, state: Mutex::default() }))
    }

    /// Waits for a turn.
    pub(crate) async fn take(&self, tenant: &Tenant) -> Turn {
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
        // The sender is in what `self` keeps alive, until it sends.
        receiver.await.expect("turns are given while there is somebody who gives them")
    }

    /// How many are taken: on the whole, or by one key.
    pub(crate) fn taken(&self, tenant: Option<&Tenant>) -> usize {
        let state = self.lock();
        match tenant {
            None => state.taken,
            Some(tenant) => state.keys.get(tenant).map_or(0, |key| key.taken),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters only; a panic elsewhere leaves nothing halfway.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives out turns while somebody may have one, one key after the other.
    fn grant(&self, state: &mut State) {
        let Bounds { most, for_one, kept } = self.0.bounds;
        let mut passed_over = 0;
        while state.taken < most + kept && passed_over < state.order.len() {
            let Some(tenant) = state.order.pop_front() else { return };
            let Entry::Occupied(mut entry) = state.keys.entry(tenant.clone()) else { continue };
            let key = entry.get_mut();
            key.waiting.retain(|waiting| !waiting.is_closed());
            let may = key.taken == 0 || (state.taken < most && key.taken < for_one);
            if may && let Some(waiting) = key.waiting.pop_front() {
                let turn = Turn { of: Some((self.clone(), tenant.clone())) };
                match waiting.send(turn) {
                    Ok(()) => (key.taken, state.taken) = (key.taken + 1, state.taken + 1),
                    // It went away this very moment. Dropping the turn as it is would lock again.
                    Err(mut turn) => drop(turn.of.take()),
                }
            }
            if !key.waiting.is_empty() {
                passed_over = if may { 0 } else { passed_over + 1 };
                state.order.push_back(tenant);
            } else if key.taken == 0 {
                entry.remove();
            }
        }
    }
}

impl Turn {
    /// Does something in this turn. The next gets it early if that takes long: then it waits for something, such as
    /// a template's first interpreter, and keeps nobody busy.
    pub(crate) async fn spend<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if let Ok(done) = tokio::time::timeout(HELD_MAX, work.as_mut()).await {
            return done;
        }
        drop(self);
        work.await
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some((turns, tenant)) = self.of.take() else { return };
        let mut state = turns.lock();
        let state = &mut *state;
        state.taken -= 1;
        if let Entry::Occupied(mut entry) = state.keys.entry(tenant) {
            entry.get_mut().taken -= 1;
            if entry.get().taken == 0 && entry.get().waiting.is_empty() {
                entry.remove();
            }
        }
        turns.grant(state);
    }
}
