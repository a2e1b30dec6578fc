//! What all sandboxes of the process share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::budget::Budget;
use super::dial::Resolver;
use super::parent::Parent;
use super::sandbox::Sandbox;
use super::upstream::UpstreamTls;
use crate::authority::LeafMaker;
use crate::settings::EgressSettings;
use crate::wire::ConfigureOrder;

/// The most keys whose sums are kept.
const KEYS_MAX: usize = 65_536;

pub(super) struct World {
    pub(super) settings: EgressSettings,
    pub(super) leaves: LeafMaker,
    pub(super) tls: UpstreamTls,
    pub(super) resolver: Resolver,
    pub(super) parent: Arc<Parent>,
    pub(super) budget: Arc<Budget>,
    keys: Mutex<HashMap<String, Arc<Budget>>>,
    sandboxes: Mutex<HashMap<u64, Arc<Sandbox>>>,
    numbers: AtomicU64,
}

/// Locks what no panic can leave half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(super) fn new(order: ConfigureOrder, parent: Arc<Parent>) -> Result<Self, String> {
        let settings =
            EgressSettings::try_from(order.settings).map_err(|error| error.to_string())?;
        let leaves = LeafMaker::new(&order.authority_name, &order.authority_key_pem.0)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            leaves,
            tls: UpstreamTls::new(&settings.extra_roots_pem)?,
            resolver: Resolver::new(),
            parent,
            budget: Arc::new(Budget::new(settings.server_limits.clone())),
            keys: Mutex::default(),
            sandboxes: Mutex::default(),
            numbers: AtomicU64::new(1),
            settings,
        })
    }

    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the sums of a key.
    pub(super) fn key_budget(&self, key: &str) -> Arc<Budget> {
        let mut keys = lock(&self.keys);
        if let Some(budget) = keys.get(key) {
            return Arc::clone(budget);
        }
        if keys.len() >= KEYS_MAX {
            keys.retain(|_, budget| Arc::strong_count(budget) > 1);
        }
        let budget = Arc::new(Budget::new(self.settings.key_limits.clone()));
        keys.insert(key.to_owned(), Arc::clone(&budget));
        budget
    }

    pub(super) fn add(&self, number: u64, sandbox: Arc<Sandbox>) {
        lock(&self.sandboxes).insert(number, sandbox);
    }

    pub(super) fn remove(&self, number: u64) {
        let removed = lock(&self.sandboxes).remove(&number);
        if let Some(sandbox) = removed {
            sandbox.end();
        }
    }

    pub(super) fn sandbox(&self, number: u64) -> Result<Arc<Sandbox>, String> {
        let found = lock(&self.sandboxes).get(&number).cloned();
        found.ok_or_else(|| "the sandbox has no network".to_owned())
    }

    pub(super) fn sandboxes(&self) -> Vec<Arc<Sandbox>> {
        lock(&self.sandboxes).values().cloned().collect()
    }
}
