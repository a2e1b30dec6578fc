//! Shares the processors by key: every key has one weight, which is divided among its active sessions.
//!
//! The kernel of the host schedules by the weights, so a key that runs a hundred cells gets no more than one that runs
//! a single one while both want all of the processors. A sandbox keeps its control group, and only the weight of the
//! group changes: sandboxes are made before their key is known, and a process cannot leave a group and take its memory
//! along.
//!
//! Tests: `tests/it/server/processors.rs`.

use std::collections::HashMap;
use std::sync::Weak;
use std::time::{Duration, Instant};

use silica_store::Tenant;

use crate::sessions::Sessions;

/// The pause between two divisions while a session is active, after the shortest one.
const ACTIVE_PAUSE: Duration = Duration::from_millis(45);

/// The shortest pause between two divisions, however many sessions become active.
const LEAST_PAUSE: Duration = Duration::from_millis(5);

/// The pause between two divisions while none is. What sessions do in the background is looked at.
const IDLE_PAUSE: Duration = Duration::from_secs(1);

/// Divides the weights of all keys again and again, until the registry is dropped.
pub(crate) async fn share_loop(sessions: Weak<Sessions>) {
    loop {
        let Some(live) = sessions.upgrade() else { return };
        let any_active = divide(&live);
        let changed = std::sync::Arc::clone(&live.services.cpu_changed);
        drop(live);
        let pause = if any_active { ACTIVE_PAUSE } else { IDLE_PAUSE };
        tokio::time::sleep(LEAST_PAUSE).await;
        // Either way the weights are divided again.
        let _ = tokio::time::timeout(pause, changed.notified()).await;
    }
}

/// Gives every session its share; returns whether one of them is active.
fn divide(sessions: &Sessions) -> bool {
    let now = Instant::now();
    let (active, others): (Vec<_>, Vec<_>) =
        sessions.all_with_single_runs().into_iter().partition(|session| session.is_active(now));
    let mut counts: HashMap<&Tenant, u32> = HashMap::new();
    for session in &active {
        *counts.entry(session.tenant()).or_default() += 1;
    }
    for session in &active {
        session.share_foreground(counts[session.tenant()], now);
    }
    for session in &others {
        session.share_background(now);
    }
    !active.is_empty()
}
