//! Ends of sessions: on request, when they are overdue, and all of them when the server shuts down.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::audit;
use crate::session::{EndReason, Purpose, Session, UsageSample};
use crate::sessions::Sessions;

/// The pause between two searches for overdue sessions and approvals.
const TICK: Duration = Duration::from_secs(1);

/// The pause between two samples of a session's usage.
const SAMPLE_PAUSE: Duration = Duration::from_secs(10);

/// How long a shutdown waits for ended sessions to release their resources.
const RELEASE_PATIENCE: Duration = Duration::from_secs(30);

/// The pause between two looks whether cells still run during a shutdown.
const DRAIN_PAUSE: Duration = Duration::from_millis(20);

/// Whether the store has a record of a sandbox that has to be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    Exists,
    Missing,
}

impl Record {
    fn of(session: &Session) -> Self {
        match session.purpose {
            Purpose::Session => Self::Exists,
            Purpose::SingleRun => Self::Missing,
        }
    }
}

impl Sessions {
    /// Ends a session; returns when all its resources are released. If another task ends it already,
    /// waits until it is removed from the live sessions.
    pub async fn end(&self, session: &Arc<Session>, reason: EndReason) {
        if let Some(_releasing) = self.stop(session, reason, Record::of(session)).await {
            session.release().await;
        }
    }

    /// Ends a session for its owner, as soon as nothing in it runs.
    pub async fn delete(self: &Arc<Self>, session: Arc<Session>) {
        self.end_soon(session, EndReason::Deleted).await;
    }

    /// Ends a session; returns when nothing in it runs and it cannot be found any more. Its resources are released in
    /// the background.
    pub(crate) async fn end_soon(self: &Arc<Self>, session: Arc<Session>, reason: EndReason) {
        let sessions = Arc::clone(self);
        let record = Record::of(&session);
        // In a task of its own, so that a client that leaves does not keep the session alive.
        let stopped = tokio::spawn(async move {
            let stopped = sessions.stop(&session, reason, record).await;
            if let Some(releasing) = stopped {
                tokio::spawn(async move {
                    session.release().await;
                    drop(releasing);
                });
            }
        });
        // The error is a panic of the task; the session is then ended when it expires.
        let _ = stopped.await;
    }

    /// Kills what is in a session, records its end and removes it from the live sessions. The caller must
    /// release its resources while it holds the returned guard. `None` if another task ends it.
    async fn stop(
        &self,
        session: &Session,
        reason: EndReason,
        record: Record,
    ) -> Option<Releasing> {
        if !session.mark_ended(reason) {
            session.removed().await;
            return None;
        }
        let releasing = Releasing::begin(&self.releasing);
        let usage = (record == Record::Exists).then(|| session.usage());
        session.kill().await;
        if let Some(usage) = usage {
            self.services.statistics.count_end(reason);
            self.record_end(session, reason, &usage).await;
        }
        // Last: a client that does not find the live session reads the record, which must be finished by then.
        self.remove(session.id());
        session.mark_removed();
        Some(releasing)
    }

    async fn record_end(&self, session: &Session, reason: EndReason, usage: &UsageSample) {
        let id = session.id();
        let usage = audit::usage_json(usage);
        if let Err(error) = self.records().finish(id, reason.name(), Some(&usage)).await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, sandbox = %id, "the end of a sandbox was not recorded");
        }
    }

    /// Admits no new sandbox or execution from now on.
    pub fn stop_admission(&self) {
        self.admission().close();
    }

    /// Shuts down: admits nothing new, waits at most `patience` for running cells, then ends every session.
    pub async fn close(self: Arc<Self>, patience: Duration) {
        self.stop_admission();
        let until = Instant::now() + patience;
        while Instant::now() < until && !self.admission().is_idle() {
            tokio::time::sleep(DRAIN_PAUSE).await;
        }
        let end = |session: Arc<Session>| {
            let sessions = Arc::clone(&self);
            tokio::spawn(async move { sessions.end(&session, EndReason::Shutdown).await })
        };
        let ends: Vec<_> = self.all_with_single_runs().into_iter().map(end).collect();
        for end in ends {
            // The error is a panic of the task; the next start records that sandbox as lost.
            let _ = end.await;
        }
        self.snapshots.remove_if(|_| true);
        let mut releasing = self.releasing.subscribe();
        // After the timeout, closing the engine ends the zone and whatever is left in it.
        let _ =
            tokio::time::timeout(RELEASE_PATIENCE, releasing.wait_for(|count| *count == 0)).await;
        self.engine().close().await;
        self.services.store.close().await;
    }
}

/// Counts a session that releases its resources; a shutdown waits for it.
struct Releasing(watch::Sender<usize>);

impl Releasing {
    fn begin(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Ends overdue sessions and approvals and samples usage, until the registry is dropped.
pub(crate) async fn expire_loop(sessions: Weak<Sessions>) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(sessions) = sessions.upgrade() else { return };
        if let Err(error) = sessions.review().expire().await {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "expired approvals could not be ended");
        }
        for session in sessions.all_with_single_runs() {
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

/// A session that no client has yet. Its kernels keep it alive, so dropping this ends it.
pub(crate) struct Unclaimed {
    sessions: Arc<Sessions>,
    session: Option<Arc<Session>>,
}

impl Unclaimed {
    pub(crate) fn new(sessions: &Arc<Sessions>, session: Arc<Session>) -> Self {
        Self { sessions: Arc::clone(sessions), session: Some(session) }
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        self.session.as_ref().expect("only `claim` and `drop` take it, and both consume this")
    }

    pub(crate) fn claim(mut self) -> Arc<Session> {
        self.session.take().expect("only `claim` and `drop` take it, and both consume this")
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let sessions = Arc::clone(&self.sessions);
            tokio::spawn(async move {
                let stopped = sessions.stop(&session, EndReason::Deleted, Record::Missing).await;
                if let Some(_releasing) = stopped {
                    session.release().await;
                }
            });
        }
    }
}
