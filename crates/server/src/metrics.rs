//! Metrics for Prometheus: durations, queues, outcomes and ends of sandboxes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use silica_sessions::{Admission, CellEnd, CellObserver, Resource, Sessions, Statistics};
use silica_store::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Stage {
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Budgeted {
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verdict {
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

/// From a tenth of a millisecond to a minute.
fn buckets() -> Histogram {
    let bounds = [
        0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
        2.5, 5.0, 10.0, 30.0, 60.0,
    ];
    Histogram::new(bounds)
}

/// The numbers of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) started_micros: i64,
    registry: Registry,
    requests: Family<Request, Counter>,
    durations: Family<Stage, Histogram, fn() -> Histogram>,
    cells: Family<Outcome, Counter>,
    running: Gauge,
    queued: Gauge,
    sandboxes: Gauge,
    ready: Gauge,
    throttled: Gauge,
    ended: Family<Reason, Counter<u64, AtomicU64>>,
    held: Family<Budgeted, Gauge>,
    most: Family<Budgeted, Gauge>,
    refused: Family<Budgeted, Counter<u64, AtomicU64>>,
    connections: Family<Verdict, Counter<u64, AtomicU64>>,
    network_bytes: Family<Direction, Counter<u64, AtomicU64>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("silica");
        let requests = Family::default();
        registry.register("http_requests", "Requests by route and status", requests.clone());
        let durations = Family::new_with_constructor(buckets as fn() -> Histogram);
        registry.register(
            "stage_duration_seconds",
            "Time by stage: request, create, cell, command, delete",
            durations.clone(),
        );
        let cells = Family::default();
        registry.register("cells", "Cells that ended, by outcome", cells.clone());
        let (running, queued) = (Gauge::default(), Gauge::default());
        registry.register("cells_running", "Cells that run", running.clone());
        registry.register("queue_depth", "Cells that wait for a turn", queued.clone());
        let (sandboxes, ready) = (Gauge::default(), Gauge::default());
        registry.register("sandboxes_live", "Sandboxes that are there", sandboxes.clone());
        registry.register("pool_depth", "Sandboxes kept ready", ready.clone());
        let throttled = Gauge::default();
        let about = "Sandboxes that used their processor time between two cells";
        registry.register("sandboxes_throttled", about, throttled.clone());
        let ended = Family::default();
        registry.register("sandboxes_ended", "Sandboxes that ended, by reason", ended.clone());
        let (held, most, refused) = (Family::default(), Family::default(), Family::default());
        registry.register("budget_held", "What all keys hold, by resource", held.clone());
        registry.register("budget_most", "The server's budget, by resource", most.clone());
        registry.register("budget_refused", "Refusals for a full budget", refused.clone());
        let (connections, network_bytes) = (Family::default(), Family::default());
        let about = "Connections of sandboxes that ended, by verdict";
        registry.register("network_connections", about, connections.clone());
        let about = "Bytes of sandboxes to and from other machines";
        registry.register("network_bytes", about, network_bytes.clone());
        Self {
            started_micros: Timestamp::now().as_micros(),
            registry,
            requests,
            durations,
            cells,
            running,
            queued,
            sandboxes,
            ready,
            throttled,
            ended,
            held,
            most,
            refused,
            connections,
            network_bytes,
        }
    }

    pub(crate) fn request(&self, route: &str, status: u16, took: Duration) {
        self.requests.get_or_create(&Request { route: route.to_owned(), status }).inc();
        self.stage("request", took);
    }

    pub(crate) fn stage(&self, stage: &'static str, took: Duration) {
        self.durations.get_or_create(&Stage { stage }).observe(took.as_secs_f64());
    }

    fn note_budgets(&self, admission: &Admission) {
        for resource in Resource::ALL {
            let budgeted = Budgeted { resource: resource.name() };
            let gauged = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
            self.held.get_or_create(&budgeted).set(gauged(admission.held(None, resource)));
            if let Some(most) = admission.most(None, resource) {
                self.most.get_or_create(&budgeted).set(gauged(most));
            }
            let refused = self.refused.get_or_create(&budgeted);
            refused.inner().store(admission.refused(resource), Ordering::Relaxed);
        }
    }

    fn note_networks(&self, statistics: &Statistics) {
        let verdicts =
            [("allowed", &statistics.connections), ("denied", &statistics.connections_denied)];
        for (verdict, count) in verdicts {
            let counter = self.connections.get_or_create(&Verdict { verdict });
            counter.inner().store(count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let directions =
            [("up", &statistics.network_bytes_up), ("down", &statistics.network_bytes_down)];
        for (direction, count) in directions {
            let counter = self.network_bytes.get_or_create(&Direction { direction });
            counter.inner().store(count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Everything, in the text form.
    pub(crate) fn text(&self, sessions: &Sessions) -> String {
        let load = sessions.admission().load(None);
        self.running.set(load.running as i64);
        self.queued.set(load.queued as i64);
        self.sandboxes.set(load.sandboxes as i64);
        self.ready.set(sessions.engine().ready_count() as i64);
        let throttled = sessions.all().iter().filter(|session| session.is_throttled()).count();
        self.throttled.set(throttled as i64);
        self.note_budgets(sessions.admission());
        self.note_networks(sessions.statistics());
        for (reason, count) in sessions.statistics().ended() {
            let counter = self.ended.get_or_create(&Reason { reason });
            counter.inner().store(count, Ordering::Relaxed);
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl CellObserver for Metrics {
    fn cell_ended(&self, end: &CellEnd) {
        let outcome = end.report.outcome.name();
        self.cells.get_or_create(&Outcome { outcome }).inc();
        self.stage("cell", end.report.duration);
    }
}
