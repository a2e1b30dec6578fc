//! Budgets: how much of each resource one key, and the whole server, may hold at a time.
//!
//! A [`Reservation`] is a part of a budget. It is kept beside what it counts and gives its part back when it is dropped, so
//! that memory which a slow client keeps alive stays counted for as long as it is there.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use silica_store::Tenant;

use super::AdmissionError;

/// When to try again if a budget is used up.
const BUDGET_RETRY: Duration = Duration::from_secs(1);

/// What is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Bytes of request bodies that are being read or worked on, and of responses that are made of copies.
    InFlightBytes,
    /// Bytes of output and results that are kept for clients.
    KeptBytes,
    /// Files, archives and long responses that are being transferred.
    Transfers,
    /// Open connections.
    Connections,
    /// Bytes of audit records in the last minute.
    AuditBytes,
    /// Weights of sandboxes, by which the processors are shared.
    CpuWeight,
}

impl Resource {
    /// Every resource, in the order in which they are shown.
    pub const ALL: [Self; 6] = [
        Self::InFlightBytes,
        Self::KeptBytes,
        Self::Transfers,
        Self::Connections,
        Self::AuditBytes,
        Self::CpuWeight,
    ];

    /// Returns its name in settings, responses and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::InFlightBytes => "in_flight_bytes",
            Self::KeptBytes => "kept_bytes",
            Self::Transfers => "transfers",
            Self::Connections => "connections",
            Self::AuditBytes => "audit_bytes",
            Self::CpuWeight => "cpu_weight",
        }
    }

    /// Returns what is counted, for the refusal of a request.
    fn describe(self, holder: BudgetHolder) -> &'static str {
        match (self, holder) {
            (Self::InFlightBytes, BudgetHolder::Key) => {
                "bytes of requests and responses in flight of one key"
            }
            (Self::InFlightBytes, BudgetHolder::Server) => {
                "bytes of requests and responses in flight"
            }
            (Self::KeptBytes, BudgetHolder::Key) => "bytes of kept output of one key",
            (Self::KeptBytes, BudgetHolder::Server) => "bytes of kept output",
            (Self::Transfers, BudgetHolder::Key) => "transfers of one key at a time",
            (Self::Transfers, BudgetHolder::Server) => "transfers at a time",
            (Self::Connections, BudgetHolder::Key) => "connections of one key",
            (Self::Connections, BudgetHolder::Server) => "connections",
            (Self::AuditBytes, _) => "bytes of audit records per minute",
            (Self::CpuWeight, _) => "weight of sandboxes",
        }
    }
}

/// Whose budget it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetHolder {
    Key,
    Server,
}

/// The most of each resource that may be held at a time, by one key or by all keys together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of request bodies.
    pub in_flight_bytes: u64,
    /// Bytes of output and results.
    pub kept_bytes: u64,
    /// Transfers.
    pub transfers: u64,
    /// Connections.
    pub connections: u64,
}

impl Budget {
    /// Returns the most of a resource that may be held; what is bounded in another way has no bound here.
    pub(super) fn of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::InFlightBytes => self.in_flight_bytes,
            Resource::KeptBytes => self.kept_bytes,
            Resource::Transfers => self.transfers,
            Resource::Connections => self.connections,
            Resource::AuditBytes | Resource::CpuWeight => u64::MAX,
        }
    }
}

/// Amounts by resource.
type Amounts = [u64; Resource::ALL.len()];

/// Counts what is held. Clones share one state.
#[derive(Clone, Debug)]
pub(super) struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    key: Budget,
    server: Budget,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: Amounts,
    refused: Amounts,
    /// Keys that hold anything.
    keys: HashMap<Tenant, Amounts>,
}

impl Ledger {
    pub(super) fn new(key: Budget, server: Budget) -> Self {
        Self(Arc::new(Shared { key, server, state: Mutex::default() }))
    }

    /// Holds nothing yet.
    pub(super) fn hold(&self, tenant: &Tenant, resource: Resource) -> Reservation {
        Reservation { ledger: self.clone(), tenant: tenant.clone(), resource, amount: 0 }
    }

    /// Returns what is held: by everyone, or by one key.
    pub(super) fn held(&self, tenant: Option<&Tenant>, resource: Resource) -> u64 {
        let state = self.lock();
        let amounts = match tenant {
            None => Some(&state.held),
            Some(tenant) => state.keys.get(tenant),
        };
        amounts.map_or(0, |amounts| amounts[resource as usize])
    }

    /// Returns how often a part of a budget was refused since the start.
    pub(super) fn refused(&self, resource: Resource) -> u64 {
        self.lock().refused[resource as usize]
    }

    /// Counts the refusal of one more of a key's own budget, and returns it.
    pub(super) fn refuse(&self, resource: Resource) -> AdmissionError {
        self.note_refusal(resource);
        self.refusal(resource, BudgetHolder::Key)
    }

    /// Counts a refusal.
    pub(super) fn note_refusal(&self, resource: Resource) {
        self.lock().refused[resource as usize] += 1;
    }

    fn refusal(&self, resource: Resource, holder: BudgetHolder) -> AdmissionError {
        let budget = match holder {
            BudgetHolder::Key => &self.0.key,
            BudgetHolder::Server => &self.0.server,
        };
        let what = resource.describe(holder);
        AdmissionError::Quota { what, most: budget.of(resource), retry: BUDGET_RETRY }
    }

    /// Returns the key that holds the most of a resource.
    pub(super) fn largest(&self, resource: Resource) -> Option<Tenant> {
        let state = self.lock();
        let largest = state.keys.iter().max_by_key(|(_, amounts)| amounts[resource as usize]);
        largest.map(|(tenant, _)| tenant.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters only: a panic while the lock is held leaves no broken invariant.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a budget that one key holds. It is given back when the hold is dropped.
#[derive(Debug)]
pub struct Reservation {
    ledger: Ledger,
    tenant: Tenant,
    resource: Resource,
    amount: u64,
}

impl Reservation {
    /// Returns how much it holds.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Holds more. If a budget does not allow it, the reservation stays as it is.
    pub fn grow(&mut self, more: u64) -> Result<(), AdmissionError> {
        self.try_grow(more).map_err(|holder| {
            self.ledger.note_refusal(self.resource);
            self.ledger.refusal(self.resource, holder)
        })
    }

    /// Holds more. If a budget does not allow it, returns whose, and the reservation stays as it is.
    pub(crate) fn try_grow(&mut self, more: u64) -> Result<(), BudgetHolder> {
        let Shared { key, server, .. } = &*self.ledger.0;
        let index = self.resource as usize;
        let mut state = self.ledger.lock();
        let of_key = state.keys.get(&self.tenant).map_or(0, |amounts| amounts[index]);
        if more > key.of(self.resource).saturating_sub(of_key) {
            return Err(BudgetHolder::Key);
        }
        if more > server.of(self.resource).saturating_sub(state.held[index]) {
            return Err(BudgetHolder::Server);
        }
        state.held[index] += more;
        state.keys.entry(self.tenant.clone()).or_default()[index] += more;
        self.amount += more;
        Ok(())
    }

    /// Holds this much, whatever the budget is: for what is divided and not refused.
    pub(crate) fn set(&mut self, amount: u64) {
        let index = self.resource as usize;
        let mut state = self.ledger.lock();
        let now = |held: u64| held - self.amount + amount;
        state.held[index] = now(state.held[index]);
        let of_key = &mut state.keys.entry(self.tenant.clone()).or_default()[index];
        *of_key = now(*of_key);
        self.amount = amount;
    }

    /// Gives a part back.
    pub fn shrink(&mut self, less: u64) {
        let less = less.min(self.amount);
        let index = self.resource as usize;
        let mut state = self.ledger.lock();
        state.held[index] -= less;
        if let Some(amounts) = state.keys.get_mut(&self.tenant) {
            amounts[index] -= less;
            if amounts.iter().all(|amount| *amount == 0) {
                state.keys.remove(&self.tenant);
            }
        }
        self.amount -= less;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.amount);
    }
}
