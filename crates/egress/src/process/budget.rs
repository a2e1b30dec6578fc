//! Limits that are counted: for one sandbox, for a key, for the process.

#[cfg(test)]
mod tests;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use silica_domain::NetworkLimits;
use tokio::time::Instant;

use super::world::lock;

/// The way of bytes, seen from the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// A limit that is used up, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UsedUp(pub(super) &'static str);

/// Tokens that come back with time.
struct Bucket {
    per_second: f64,
    most: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    fn new(per_second: u64, most: u64) -> Self {
        let most = most as f64;
        Self { per_second: per_second as f64, most, left: most, at: Instant::now() }
    }

    fn refill(&mut self) {
        let now = Instant::now();
        let came = now.duration_since(self.at).as_secs_f64() * self.per_second;
        self.left = (self.left + came).min(self.most);
        self.at = now;
    }

    fn try_take(&mut self) -> bool {
        self.refill();
        let enough = self.left >= 1.0;
        if enough {
            self.left -= 1.0;
        }
        enough
    }

    /// Takes tokens, also those that have not come yet, and returns how long to wait for them.
    fn owe(&mut self, count: u64) -> Duration {
        self.refill();
        self.left -= count as f64;
        Duration::from_secs_f64((-self.left / self.per_second).max(0.0))
    }
}

/// The limits of one owner, and what is used of them.
pub(super) struct Budget {
    limits: NetworkLimits,
    connections: AtomicU32,
    names: AtomicU32,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    new_connections: Mutex<Bucket>,
    lookups: Mutex<Bucket>,
    bytes: Mutex<Bucket>,
    hit: AtomicBool,
}

impl Budget {
    pub(super) fn new(limits: NetworkLimits) -> Self {
        let second = limits.bytes_per_second;
        Self {
            connections: AtomicU32::new(0),
            names: AtomicU32::new(0),
            bytes_up: AtomicU64::new(0),
            bytes_down: AtomicU64::new(0),
            new_connections: Mutex::new(Bucket::new(
                limits.connections_per_second.into(),
                limits.connections_burst.into(),
            )),
            lookups: Mutex::new(Bucket::new(
                limits.lookups_per_second.into(),
                limits.lookups_per_second.into(),
            )),
            bytes: Mutex::new(Bucket::new(second, second)),
            hit: AtomicBool::new(false),
            limits,
        }
    }

    pub(super) fn limits(&self) -> &NetworkLimits {
        &self.limits
    }

    /// Counts bytes that an earlier process let through.
    pub(super) fn add_used(&self, up: u64, down: u64) {
        self.bytes_up.fetch_add(up, Ordering::Relaxed);
        self.bytes_down.fetch_add(down, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Up => self.bytes_up.load(Ordering::Relaxed),
            Direction::Down => self.bytes_down.load(Ordering::Relaxed),
        }
    }

    pub(super) fn was_hit(&self) -> bool {
        self.hit.load(Ordering::Relaxed)
    }

    fn used_up(&self, name: &'static str) -> UsedUp {
        self.hit.store(true, Ordering::Relaxed);
        UsedUp(name)
    }

    fn open_connection(&self) -> Result<(), UsedUp> {
        for direction in [Direction::Up, Direction::Down] {
            self.check_bytes(direction)?;
        }
        if self.connections.load(Ordering::Relaxed) >= self.limits.connections {
            return Err(self.used_up("connections"));
        }
        if !lock(&self.new_connections).try_take() {
            return Err(self.used_up("connections_per_second"));
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn close_connection(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    fn check_bytes(&self, direction: Direction) -> Result<(), UsedUp> {
        let (most, name) = match direction {
            Direction::Up => (self.limits.bytes_up, "bytes_up"),
            Direction::Down => (self.limits.bytes_down, "bytes_down"),
        };
        if self.bytes(direction) > most { Err(self.used_up(name)) } else { Ok(()) }
    }

    fn spend(&self, direction: Direction, count: u64) -> Result<Duration, UsedUp> {
        match direction {
            Direction::Up => self.bytes_up.fetch_add(count, Ordering::Relaxed),
            Direction::Down => self.bytes_down.fetch_add(count, Ordering::Relaxed),
        };
        self.check_bytes(direction)?;
        Ok(lock(&self.bytes).owe(count))
    }
}

/// The budgets that a sandbox counts against: its own, its key's, the server's.
pub(super) struct Budgets(pub(super) [std::sync::Arc<Budget>; 3]);

/// A connection that counts until this is dropped.
pub(super) struct ConnectionPlace(Vec<std::sync::Arc<Budget>>);

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        for budget in &self.0 {
            budget.close_connection();
        }
    }
}

impl Budgets {
    pub(super) fn own(&self) -> &Budget {
        &self.0[0]
    }

    /// Counts a connection, if every limit allows it.
    pub(super) fn open_connection(&self) -> Result<ConnectionPlace, UsedUp> {
        let mut place = ConnectionPlace(Vec::with_capacity(self.0.len()));
        for budget in &self.0 {
            budget.open_connection()?;
            place.0.push(std::sync::Arc::clone(budget));
        }
        Ok(place)
    }

    /// Counts a further connection to the far side for one of the guest's, which streams that are
    /// reset at once would otherwise open without end.
    pub(super) fn take_dial(&self) -> Result<(), UsedUp> {
        for budget in &self.0 {
            if !lock(&budget.new_connections).try_take() {
                return Err(budget.used_up("connections_per_second"));
            }
        }
        Ok(())
    }

    /// Counts a look-up.
    pub(super) fn take_lookup(&self) -> Result<(), UsedUp> {
        for budget in &self.0 {
            if !lock(&budget.lookups).try_take() {
                return Err(budget.used_up("lookups_per_second"));
            }
        }
        Ok(())
    }

    /// Counts a name that gets an address.
    pub(super) fn take_name(&self) -> Result<(), UsedUp> {
        let full = |budget: &&std::sync::Arc<Budget>| {
            budget.names.load(Ordering::Relaxed) >= budget.limits.names
        };
        if let Some(budget) = self.0.iter().find(full) {
            return Err(budget.used_up("names"));
        }
        for budget in &self.0 {
            budget.names.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives names back when their sandbox ends.
    pub(super) fn give_names_back(&self, count: u32) {
        for budget in &self.0 {
            budget.names.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// Counts bytes, and returns how long to wait before more of them.
    pub(super) fn spend(&self, direction: Direction, count: u64) -> Result<Duration, UsedUp> {
        let mut wait = Duration::ZERO;
        for budget in &self.0 {
            wait = wait.max(budget.spend(direction, count)?);
        }
        Ok(wait)
    }
}
