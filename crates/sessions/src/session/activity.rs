//! Whether a session runs anything that a client asked for, and what it gets of the processors.
//!
//! A session is active while a cell or a command runs or an interpreter starts, and for a moment after. Whatever runs
//! in it at other times was left behind, by threads or by processes that outlive their cell. It runs in the background:
//! with the least weight, and once it has used the `cpu_seconds` of one cell, with a small part of one processor.
//! The next cell or command starts that count again.
//!
//! `share_loop` divides the weight of a key among its active sessions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use silica_engine::CpuShare;

use super::Session;

/// How long a session stays active after the last end in it, so that one cell after the other changes nothing.
const LINGER: Duration = Duration::from_millis(100);

/// The weight of a session in the background.
const BACKGROUND_WEIGHT: u32 = 1;

/// The least weight of an active session.
const ACTIVE_WEIGHT_MIN: u32 = 2;

/// What a session in the background gets of one processor once it has used its allowance, in thousandths.
const THROTTLED_MILLIS: u32 = 20;

/// The pause between two looks at the processor time of a session in the background.
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
    /// Set while it is in the background.
    background: Option<Background>,
}

#[derive(Clone, Copy, Debug)]
struct Background {
    looked: Instant,
    /// Processor time of the sandbox at that look.
    cpu: Duration,
    /// Processor time used in the background.
    used: Duration,
    throttled: bool,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            executions: 0,
            last_end: Instant::now(),
            weight: CpuShare::WEIGHT_NEW,
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
    }
}

impl Session {
    /// Makes the session active. One that was in the background gets the share of a new session until its key's
    /// weight is divided again.
    pub(crate) fn execute(self: &Arc<Self>) -> Executing {
        let mut state = self.activity.lock();
        state.executions += 1;
        if state.background.take().is_some() {
            self.give(&mut state, CpuShare::WEIGHT_NEW, self.terms.limits.cpu_millis);
            self.services.cpu_changed.notify_one();
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
    pub(crate) fn share_foreground(&self, active: u32) {
        let mut state = self.activity.lock();
        let weight = (CpuShare::WEIGHT_MAX / active.max(1)).max(ACTIVE_WEIGHT_MIN);
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
            let cpu = self.sandbox.cpu_time().unwrap_or_default();
            let used = Duration::ZERO;
            state.background = Some(Background { looked: now, cpu, used, throttled: false });
            return;
        };
        if now.saturating_duration_since(background.looked) >= LOOK_PAUSE {
            self.look(&mut state, background, now);
        }
    }

    /// Charges the key for what the session used in the background, and throttles it beyond its allowance.
    fn look(&self, state: &mut State, before: Background, now: Instant) {
        let cpu = self.sandbox.cpu_time().unwrap_or_default();
        let more = cpu.saturating_sub(before.cpu);
        self.services.admission.charge(&self.tenant, 0, more);
        let used = before.used + more;
        let throttled = used > self.terms.limits.cpu;
        if throttled && !before.throttled {
            let sandbox = self.id.as_str();
            tracing::info!(sandbox, "throttled: it used its cpu_seconds between two cells");
            self.give(state, BACKGROUND_WEIGHT, THROTTLED_MILLIS);
        }
        state.background = Some(Background { looked: now, cpu, used, throttled });
    }

    fn give(&self, state: &mut State, weight: u32, cpu_millis: u32) {
        state.weight = weight;
        // A limit below that part of a processor stays.
        let cpu_millis = cpu_millis.min(self.terms.limits.cpu_millis).max(CpuShare::MILLIS_MIN);
        self.sandbox.set_share(CpuShare { weight, cpu_millis });
    }
}
