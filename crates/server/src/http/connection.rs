//! Connections: how many there may be, and which one is closed for a new one.
//!
//! A connection that has shown no valid key counts for the address of its peer, one that has counts for the key. If
//! the peer has too many of the first kind, or the server is full, the oldest connection without a key is closed and
//! the new one is served: a flood of silent connections does not lock out clients with a key. If all have shown one, the
//! oldest connection of the key that has the most is closed: a few keys do not lock out the others either.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use silica_sessions::{Admission, AdmissionError, Reservation, Resource};
use silica_store::Tenant;
use tokio::sync::Notify;

/// The most connections of one peer address that have shown no key.
const WITHOUT_KEY_PER_PEER_MAX: usize = 256;

/// The connections of a server. Clones share one state.
#[derive(Clone, Debug)]
pub(super) struct Connections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    count_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// The numbers of all connections.
    open: HashSet<u64>,
    /// Connections without a key, by number: the first is the oldest.
    without_key: BTreeMap<u64, Silent>,
    /// The numbers of those of each peer.
    peers: HashMap<IpAddr, BTreeSet<u64>>,
    /// Connections of each key, by number.
    keys: HashMap<Tenant, BTreeMap<u64, Keyed>>,
}

/// A connection with a key.
#[derive(Debug)]
struct Keyed {
    closed: Arc<Notify>,
    /// Given back when it is told to close, for the connection that takes its place.
    _hold: Reservation,
}

/// A connection without a key.
#[derive(Debug)]
struct Silent {
    peer: IpAddr,
    closed: Arc<Notify>,
}

impl State {
    fn forget(&mut self, number: u64) -> Option<Silent> {
        let silent = self.without_key.remove(&number)?;
        if let Some(numbers) = self.peers.get_mut(&silent.peer) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.peers.remove(&silent.peer);
            }
        }
        Some(silent)
    }

    fn forget_keyed(&mut self, tenant: &Tenant, number: u64) -> Option<Keyed> {
        let of_key = self.keys.get_mut(tenant)?;
        let keyed = of_key.remove(&number);
        if of_key.is_empty() {
            self.keys.remove(tenant);
        }
        keyed
    }

    /// Closes the oldest connection of the key that has the most. Returns false if no key has two.
    fn close_of_largest_key(&mut self) -> bool {
        let largest = self.keys.iter().max_by_key(|(_, of_key)| of_key.len());
        let Some((tenant, of_key)) = largest.filter(|(_, of_key)| of_key.len() > 1) else {
            return false;
        };
        let (tenant, oldest) = (tenant.clone(), of_key.keys().next().copied());
        if let Some(number) = oldest
            && let Some(keyed) = self.forget_keyed(&tenant, number)
        {
            keyed.closed.notify_one();
            self.open.remove(&number);
        }
        true
    }

    /// Closes a connection without a key.
    fn close(&mut self, number: u64) {
        if let Some(silent) = self.forget(number) {
            silent.closed.notify_one();
            self.open.remove(&number);
        }
    }
}

impl Connections {
    pub(super) fn new(count_max: usize) -> Self {
        Self(Arc::new(Shared { count_max, state: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Maps and counters only: a panic while the lock is held leaves no broken invariant.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection, for which another one may be closed. Returns `None` if the server is full of keys with one
    /// connection each.
    pub(super) fn admit(&self, peer: IpAddr) -> Option<Arc<Connection>> {
        let mut state = self.lock();
        let of_peer = state.peers.get(&peer);
        let oldest_of_peer = of_peer
            .filter(|numbers| numbers.len() >= WITHOUT_KEY_PER_PEER_MAX)
            .and_then(|numbers| numbers.first().copied());
        if let Some(number) = oldest_of_peer {
            state.close(number);
        } else if state.open.len() >= self.0.count_max {
            match state.without_key.keys().next().copied() {
                Some(number) => state.close(number),
                None if state.close_of_largest_key() => {}
                None => return None,
            }
        }
        let number = state.next;
        state.next += 1;
        state.open.insert(number);
        let closed = Arc::new(Notify::new());
        state.without_key.insert(number, Silent { peer, closed: Arc::clone(&closed) });
        state.peers.entry(peer).or_default().insert(number);
        drop(state);
        Some(Arc::new(Connection {
            connections: self.clone(),
            number,
            peer,
            closed,
            has_request: AtomicBool::new(false),
            resets: AtomicBool::new(false),
            holder: Mutex::default(),
        }))
    }
}

/// An open connection, in the extensions of its requests.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: Connections,
    number: u64,
    peer: IpAddr,
    closed: Arc<Notify>,
    has_request: AtomicBool,
    resets: AtomicBool,
    /// The key that it counts for.
    holder: Mutex<Option<Tenant>>,
}

impl Connection {
    /// Waits until it must be closed for another one.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Returns the address of its peer.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Notes that the head of a request has arrived.
    pub(super) fn note_request(&self) {
        self.has_request.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_request(&self) -> bool {
        self.has_request.load(Ordering::Relaxed)
    }

    /// Has it end with a reset, whatever ends it.
    pub(crate) fn reset_at_end(&self) {
        self.resets.store(true, Ordering::Relaxed);
    }

    pub(super) fn resets(&self) -> bool {
        self.resets.load(Ordering::Relaxed)
    }

    /// Counts it for a key, which it has just shown. A proxy shows several keys on one connection: the last one
    /// counts.
    pub(crate) fn belongs_to(
        &self,
        admission: &Admission,
        tenant: &Tenant,
    ) -> Result<(), AdmissionError> {
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
        if holder.as_ref() == Some(tenant) {
            return Ok(());
        }
        let mut hold = admission.hold(tenant, Resource::Connections);
        hold.grow(1)?;
        let before = holder.replace(tenant.clone());
        drop(holder);
        let mut state = self.connections.lock();
        state.forget(self.number);
        if let Some(before) = before {
            state.forget_keyed(&before, self.number);
        }
        if state.open.contains(&self.number) {
            let of_key = state.keys.entry(tenant.clone()).or_default();
            let closed = Arc::clone(&self.closed);
            of_key.insert(self.number, Keyed { closed, _hold: hold });
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let holder = self.holder.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let mut state = self.connections.lock();
        state.forget(self.number);
        if let Some(tenant) = &holder {
            state.forget_keyed(tenant, self.number);
        }
        state.open.remove(&self.number);
    }
}
