//! The connections of one sandbox: those that are open, and the last ones that ended.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use silica_domain::{Grant, NetworkHost};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::budget::Direction;
use super::refusal::Refusal;
use super::sandbox::Sandbox;
use super::world::lock;
use crate::events::{ConnectionKind, ConnectionRecord, ConnectionState, RequestRecord};
use crate::wire::Report;

/// How many connections that ended are kept.
const ENDED_MAX: usize = 1000;

/// How many requests of a connection are reported, and how many are kept when it has ended.
const REQUESTS_MAX: usize = 32;
const REQUESTS_KEPT: usize = 2;

/// The longest path in a record.
const PATH_BYTES_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Connections {
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    ended: Mutex<VecDeque<ConnectionRecord>>,
    count: AtomicU64,
}

/// One connection of a guest to one host.
pub(super) struct Connection {
    pub(super) host: NetworkHost,
    pub(super) port: u16,
    /// Whether a person allowed this connection alone.
    pub(super) once: AtomicBool,
    started: Instant,
    active_ms: AtomicU64,
    up: AtomicU64,
    down: AtomicU64,
    record: Mutex<ConnectionRecord>,
    /// Ends the guest's connection.
    closing: Arc<Notify>,
}

/// Keeps a connection among the open ones; its end is reported when this is dropped.
pub(super) struct OpenConnection {
    sandbox: Arc<Sandbox>,
    connection: Arc<Connection>,
}

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// What a connection is at its beginning.
pub(super) struct Opening {
    pub(super) host: NetworkHost,
    pub(super) port: u16,
    pub(super) kind: ConnectionKind,
    pub(super) closing: Arc<Notify>,
}

impl OpenConnection {
    pub(super) fn new(sandbox: &Arc<Sandbox>, opening: Opening, grant: &Grant) -> Self {
        let number = sandbox.world.number();
        let record = ConnectionRecord {
            number,
            host: opening.host.to_string(),
            port: opening.port,
            address: None,
            kind: opening.kind,
            state: ConnectionState::Open,
            rule: Some(grant.rule.clone()),
            origin: Some(grant.origin.name().to_owned()),
            code: None,
            message: None,
            bytes_up: 0,
            bytes_down: 0,
            started_at_ms: now_ms(),
            duration_ms: 0,
            request_count: 0,
            requests: Vec::new(),
        };
        let connection = Arc::new(Connection {
            host: opening.host,
            port: opening.port,
            once: AtomicBool::new(false),
            started: Instant::now(),
            active_ms: AtomicU64::new(0),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            record: Mutex::new(record),
            closing: opening.closing,
        });
        let connections = &sandbox.connections;
        connections.count.fetch_add(1, Ordering::Relaxed);
        lock(&connections.open).insert(number, Arc::clone(&connection));
        Self { sandbox: Arc::clone(sandbox), connection }
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Counts bytes; an error means that a limit is used up and the connection is closing.
    pub(super) fn spend(&self, direction: Direction, count: usize) -> Result<Duration, Refusal> {
        self.connection.add(direction, count as u64);
        self.sandbox.budgets.spend(direction, count as u64).map_err(|used_up| {
            let refusal = Refusal::limit(used_up.0);
            self.connection.end(&refusal);
            refusal
        })
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut record = self.connection.snapshot();
        if record.state == ConnectionState::Open {
            record.state = ConnectionState::Closed;
        }
        let connections = &self.sandbox.connections;
        lock(&connections.open).remove(&record.number);
        {
            let mut ended = lock(&connections.ended);
            if ended.len() >= ENDED_MAX {
                ended.pop_front();
            }
            let mut kept = record.clone();
            kept.requests.truncate(REQUESTS_KEPT);
            kept.requests.shrink_to_fit();
            ended.push_back(kept);
        }
        let report = Report::Finished { sandbox: self.sandbox.number, record: Box::new(record) };
        self.sandbox.world.parent.report(report);
    }
}

impl Connection {
    fn add(&self, direction: Direction, count: u64) {
        match direction {
            Direction::Up => self.up.fetch_add(count, Ordering::Relaxed),
            Direction::Down => self.down.fetch_add(count, Ordering::Relaxed),
        };
        self.active_ms.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    pub(super) fn dialled(&self, address: SocketAddr) {
        lock(&self.record).address = Some(address);
    }

    pub(super) fn add_request(&self, mut request: RequestRecord) {
        let mut record = lock(&self.record);
        record.request_count += 1;
        if record.requests.len() < REQUESTS_MAX {
            let mut end = request.path.len().min(PATH_BYTES_MAX);
            while !request.path.is_char_boundary(end) {
                end -= 1;
            }
            request.path.truncate(end);
            record.requests.push(request);
        }
    }

    /// Notes why the connection ends, and closes it.
    pub(super) fn end(&self, refusal: &Refusal) {
        self.note(refusal);
        self.closing.notify_one();
    }

    /// Notes why the connection ends.
    pub(super) fn note(&self, refusal: &Refusal) {
        let mut record = lock(&self.record);
        if record.state == ConnectionState::Open {
            record.state =
                if refusal.by_rule { ConnectionState::Refused } else { ConnectionState::Closed };
            record.code = Some(refusal.code.to_owned());
            record.message = Some(refusal.message.clone());
        }
    }

    fn snapshot(&self) -> ConnectionRecord {
        let mut record = lock(&self.record).clone();
        record.bytes_up = self.up.load(Ordering::Relaxed);
        record.bytes_down = self.down.load(Ordering::Relaxed);
        record.duration_ms = self.started.elapsed().as_millis() as u64;
        record
    }

    pub(super) fn kind(&self) -> ConnectionKind {
        lock(&self.record).kind
    }
}

impl Connections {
    /// Returns the open connections and the last ones that ended, oldest first.
    pub(super) fn records(&self) -> Vec<ConnectionRecord> {
        let mut records: Vec<ConnectionRecord> = lock(&self.ended).iter().cloned().collect();
        let mut open: Vec<_> = self.open().iter().map(|open| open.snapshot()).collect();
        open.sort_by_key(|record| record.number);
        records.extend(open);
        records
    }

    pub(super) fn open(&self) -> Vec<Arc<Connection>> {
        lock(&self.open).values().cloned().collect()
    }

    pub(super) fn open_count(&self) -> u64 {
        lock(&self.open).len() as u64
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Closes what has been silent or has lived too long.
    pub(super) fn close_old(&self, idle: Duration, life: Duration) {
        for connection in self.open() {
            let age = connection.started.elapsed();
            let active = Duration::from_millis(connection.active_ms.load(Ordering::Relaxed));
            if age > life {
                connection.end(&Refusal::limit("life_seconds"));
            } else if age.saturating_sub(active) > idle {
                connection.end(&Refusal::limit("idle_seconds"));
            }
        }
    }
}
