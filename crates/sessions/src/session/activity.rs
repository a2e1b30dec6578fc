//! Whether a session runs anything that a client asked for, and what it gets of the processors.
//!
//! A session is active while a cell or a command runs or an interpreter starts, and for a moment after. Whatever runs
//! in it at other times was left behind, by threads or by processes that outlive their cell. It runs in the background:
//! with the least weight, and once it has used the `cpu_seconds` of one cell, with a small part of one processor.
//! The next cell or command starts that count again.
//!
//! `share_loop` divides the weight of a key among its active sessions. One that becomes active in between gets its part at
//! once, by the number of sessions of its key in which something runs.
//!
//! All processor time of a sandbox from its first execution on is charged to its key, once.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use silica_engine::CpuShare;
use silica_store::Tenant;

use super::Session;
use crate::fairness::Reservation;

/// How long a session stays active after the last end in it, so that one cell after the other changes nothing.
const LINGER: Duration = Duration::from_millis(100);

/// The weight of a session in the background.
const BACKGROUND_WEIGHT: u32 = 1;

/// The least weight of an active session.
const ACTIVE_WEIGHT_MIN: u32 = 2;

/// What a session in the background gets of one processor once it has used its allowance, in thousandths.
const THROTTLED_MILLIS: u32 = 20;

/// The pause between two looks at the processor time of a session.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// What runs in a session, and the share that it was given.
#[derive(Debug)]
pub(super) struct Activity(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Running cells and commands, and interpreters that start.
    executions: u32,
    last_end: Instant,
    weight: u32,
    /// Counts the weight for its key.
    held: Reservation,
    looked: Instant,
    /// The processor time of the sandbox up to which its key was charged; `None` before its first execution.
    charged: Option<Duration>,
    /// Set while it is in the background.
    background: Option<Background>,
}

#[derive(Clone, Copy, Debug)]
struct Background {
    /// Processor time used in the background.
    used: Duration,
    throttled: bool,
}

impl Activity {
    /// Returns that of a new session; `held` counts its weight.
    pub(super) fn new(mut held: Reservation) -> Self {
        held.set(u64::from(CpuShare::WEIGHT_NEW));
        Self(Mutex::new(State {
            executions: 0,
            last_end: Instant::now(),
            weight: CpuShare::WEIGHT_NEW,
            held,
            looked: Instant::now(),
            charged: None,
            background: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters only: a panic while the lock is held leaves no broken invariant.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_active(&self, now: Instant) -> bool {
        self.executions > 0 || now.saturating_duration_since(self.last_end) < LINGER
    }
}

/// In how many sessions of each key something runs.
#[derive(Debug, Default)]
pub(crate) struct ExecutingSessions(Mutex<HashMap<Tenant, u32>>);

impl ExecutingSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, u32>> {
        // Counters only: a panic while the lock is held leaves no broken invariant.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more session of a key; returns how many there are.
    fn begin(&self, tenant: &Tenant) -> u32 {
        let mut counts = self.lock();
        let count = counts.entry(tenant.clone()).or_default();
        *count += 1;
        *count
    }

    fn end(&self, tenant: &Tenant) {
        let mut counts = self.lock();
        if let Some(count) = counts.get_mut(tenant) {
            *count -= 1;
            if *count == 0 {
                counts.remove(tenant);
            }
        }
    }
}

/// Returns the part of the weight of a key that each of its `active` sessions gets.
fn part(active: u32) -> u32 {
    (CpuShare::WEIGHT_MAX / active.max(1)).max(ACTIVE_WEIGHT_MIN)
}

/// Returns the weight of a session that becomes active as one of so many. It is no more than a new session has: the
/// others of its key have their old parts until the weight is divided again.
fn first_part(active: u32) -> u32 {
    part(active).min(CpuShare::WEIGHT_NEW)
}

/// Keeps a session active until it is dropped.
#[derive(Debug)]
pub(crate) struct Executing(Arc<Session>);

impl Executing {
    /// Returns the session.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        let mut state = self.0.activity.lock();
        state.executions -= 1;
        state.last_end = Instant::now();
        if state.executions == 0 {
            self.0.services.executing.end(&self.0.tenant);
        }
    }
}

impl Session {
    /// Makes the session active. One in which nothing ran gets its part of the weight of its key, of which the others
    /// have too much until it is divided again.
    pub(crate) fn execute(self: &Arc<Self>) -> Executing {
        let mut state = self.activity.lock();
        state.executions += 1;
        if state.executions == 1 {
            let weight = first_part(self.services.executing.begin(&self.tenant));
            let was_background = state.background.take().is_some();
            // A new session has a small weight, which is raised when the weights are divided.
            if was_background || weight < state.weight {
                self.give(&mut state, weight, self.terms.limits.cpu_millis);
                self.services.cpu_changed.notify_one();
            }
        }
        if state.charged.is_none() {
            state.charged = self.sandbox.cpu_time();
        }
        Executing(Arc::clone(self))
    }

    /// Returns whether it is active.
    pub(crate) fn is_active(&self, now: Instant) -> bool {
        self.activity.lock().is_active(now)
    }

    /// Returns whether it is held to a small part of one processor for what it does in the background.
    pub fn is_throttled(&self) -> bool {
        self.activity.lock().background.is_some_and(|background| background.throttled)
    }

    /// Gives an active session its part of the weight of its key, which has `active` such sessions.
    pub(crate) fn share_foreground(&self, active: u32, now: Instant) {
        let mut state = self.activity.lock();
        if now.saturating_duration_since(state.looked) >= LOOK_PAUSE {
            state.looked = now;
            self.charge_used(&mut state);
        }
        let weight = part(active);
        // Small changes are not worth a request to the zone.
        let differs = weight * 5 < state.weight * 4 || weight * 4 > state.weight * 5;
        if state.background.is_none() && differs {
            self.give(&mut state, weight, self.terms.limits.cpu_millis);
        }
    }

    /// Lowers the share of a session that is not active, and looks at what it uses.
    pub(crate) fn share_background(&self, now: Instant) {
        let mut state = self.activity.lock();
        if state.is_active(now) {
            return;
        }
        let Some(background) = state.background else {
            self.give(&mut state, BACKGROUND_WEIGHT, self.terms.limits.cpu_millis);
            self.charge_used(&mut state);
            state.looked = now;
            state.background = Some(Background { used: Duration::ZERO, throttled: false });
            return;
        };
        if now.saturating_duration_since(state.looked) >= LOOK_PAUSE {
            state.looked = now;
            self.look(&mut state, background);
        }
    }

    /// Charges the key for what the session used in the background, and throttles it beyond its allowance.
    fn look(&self, state: &mut State, before: Background) {
        let used = before.used + self.charge_used(state);
        let throttled = used > self.terms.limits.cpu;
        if throttled && !before.throttled {
            let sandbox = self.id.as_str();
            tracing::info!(sandbox, "throttled: it used its cpu_seconds between two cells");
            self.give(state, BACKGROUND_WEIGHT, THROTTLED_MILLIS);
        }
        state.background = Some(Background { used, throttled });
    }

    /// Charges the key for the processor time that it was not charged for yet, and returns it.
    fn charge_used(&self, state: &mut State) -> Duration {
        let used = self.take_used(state).unwrap_or_default();
        self.services.admission.charge(&self.tenant, 0, used);
        used
    }

    /// Returns the processor time since the last charge, and counts it as charged; `None` where it is not measured, and in a
    /// sandbox that has ended.
    fn take_used(&self, state: &mut State) -> Option<Duration> {
        let now = self.sandbox.cpu_time()?;
        let before = state.charged.replace(now).unwrap_or(now);
        Some(now.saturating_sub(before))
    }

    /// Charges the key for output, and for the processor time since the last charge; `measured` if that is not known.
    pub(crate) fn charge_execution(&self, output_bytes: u64, measured: Duration) {
        let used = self.take_used(&mut self.activity.lock());
        self.services.admission.charge(&self.tenant, output_bytes, used.unwrap_or(measured));
    }

    fn give(&self, state: &mut State, weight: u32, cpu_millis: u32) {
        state.weight = weight;
        state.held.set(u64::from(weight));
        // A limit below that part of a processor stays.
        let cpu_millis = cpu_millis.min(self.terms.limits.cpu_millis).max(CpuShare::MILLIS_MIN);
        self.sandbox.set_share(CpuShare { weight, cpu_millis });
    }
}
