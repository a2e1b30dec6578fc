//! Ends of sessions: asked for, overdue, unclaimed, and all of them when the server goes down.

use std::sync::Arc;
use std::time::{Duration, Instant};

use silica_store::SandboxId;
use tokio::sync::watch;

use crate::session::{EndReason, Sample, Session};
use crate::sessions::Sessions;

/// How often it is looked whose time is up.
const TICK: Duration = Duration::from_secs(1);

/// How far samples of use lie apart.
const SAMPLE_PAUSE: Duration = Duration::from_secs(10);

/// How long sandboxes that are being cleared away are waited for when the server goes down.
const CLEAR_PATIENCE: Duration = Duration::from_secs(30);

/// How long cells that run are waited for when the server goes down, unless told otherwise.
const DRAIN_PAUSE: Duration = Duration::from_millis(20);

impl Sessions {
    /// Ends a session; returns when nothing of it is left. Ending one twice is waiting for the first.
    pub async fn end(&self, session: &Arc<Session>, reason: EndReason) {
        if let Some(_under_way) = self.stop(session, reason, !session.is_single()).await {
            session.take_down().await;
        }
    }

    /// Ends a session for its owner: returns when nothing in it runs and nobody finds it any more. What
    /// it held is given back beside, in a few milliseconds.
    pub async fn delete(self: &Arc<Self>, session: Arc<Session>) {
        let sessions = Arc::clone(self);
        // A client that goes away does not keep it alive.
        let stopped = tokio::spawn(async move {
            if let Some(under_way) = sessions.stop(&session, EndReason::Deleted, true).await {
                tokio::spawn(async move {
                    session.take_down().await;
                    drop(under_way);
                });
            }
        });
        // One that panicked is found and ended when its time is up.
        let _ = stopped.await;
    }

    /// Kills what is in a session, records its end and forgets it; nothing if somebody else has. What it
    /// held is still to be given back, for which a server that goes down waits.
    async fn stop(
        &self,
        session: &Session,
        reason: EndReason,
        recorded: bool,
    ) -> Option<ClearingUp> {
        if !session.mark_ended(reason) {
            session.gone().await;
            return None;
        }
        let under_way = ClearingUp::begin(&self.clearing_up);
        let usage = recorded.then(|| session.usage());
        session.kill().await;
        if let Some(usage) = usage {
            self.numbers.count_end(reason);
            self.record_end(session.id(), reason, &usage).await;
        }
        // Last: whoever does not find it here any more reads the record.
        self.lock().remove(session.id());
        session.mark_gone();
        Some(under_way)
    }

    async fn record_end(&self, id: &SandboxId, reason: EndReason, usage: &Sample) {
        let usage = serde_json::json!({
            "cpu_ms": usage.cpu_ms,
            "memory_peak_bytes": usage.memory_peak_bytes,
            "disk_bytes": usage.disk_bytes,
        });
        let finished = self.store.sandboxes().finish(id, reason.name(), Some(&usage));
        if let Err(error) = finished.await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, sandbox = %id, "the end of a sandbox was not recorded");
        }
    }

    /// Takes nothing new from now on.
    pub fn stop_taking(&self) {
        self.admission.close();
    }

    /// Takes nothing new, lets what runs end for a while, then ends everything.
    pub async fn close(self: Arc<Self>, patience: Duration) {
        self.stop_taking();
        let until = Instant::now() + patience;
        while Instant::now() < until && !self.admission.is_idle() {
            tokio::time::sleep(DRAIN_PAUSE).await;
        }
        let ends: Vec<_> = self
            .all()
            .into_iter()
            .map(|session| {
                let sessions = Arc::clone(&self);
                tokio::spawn(async move { sessions.end(&session, EndReason::Shutdown).await })
            })
            .collect();
        for end in ends {
            // One that panicked left its record as running; the next start says it is lost.
            let _ = end.await;
        }
        let mut clearing_up = self.clearing_up.subscribe();
        // Bounded as what is waited for is; what is left then goes with the zone.
        let _ =
            tokio::time::timeout(CLEAR_PATIENCE, clearing_up.wait_for(|count| *count == 0)).await;
        self.engine().close().await;
        self.store.close().await;
    }
}

/// Counts a session that is being cleared away.
struct ClearingUp(watch::Sender<usize>);

impl ClearingUp {
    fn begin(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for ClearingUp {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Ends those whose time is up and takes samples, for as long as there are sessions to look after.
pub(crate) async fn look_after(sessions: std::sync::Weak<Sessions>) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(sessions) = sessions.upgrade() else { return };
        if let Err(error) = sessions.review.expire().await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "approvals whose time is up could not be ended");
        }
        for session in sessions.all() {
            match session.overdue() {
                Some(reason) => {
                    let sessions = Arc::clone(&sessions);
                    tokio::spawn(async move { sessions.end(&session, reason).await });
                }
                None => session.sample(SAMPLE_PAUSE),
            }
        }
    }
}

/// A session that nobody has yet. Its kernels keep it alive, so it must be ended and not just dropped.
pub(crate) struct Unclaimed {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) session: Option<Arc<Session>>,
}

impl Unclaimed {
    pub(crate) fn session(&self) -> &Arc<Session> {
        self.session.as_ref().expect("it is taken out only by what consumes this")
    }

    pub(crate) fn claim(mut self) -> Arc<Session> {
        self.session.take().expect("it is taken out only here")
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let sessions = Arc::clone(&self.sessions);
            tokio::spawn(async move {
                let stopped = sessions.stop(&session, EndReason::Deleted, false).await;
                if let Some(_under_way) = stopped {
                    session.take_down().await;
                }
            });
        }
    }
}
