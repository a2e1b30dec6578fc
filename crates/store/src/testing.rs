//! A data directory for one test, and a connection that tampers with the database in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tempfile::TempDir;

use crate::audit::{Activity, Begin, Finish};
use crate::{Access, Clock, ExecutionId, Store, StoreOptions, Tenant, Timestamp};

/// How long a condition may take to hold that should take a second; generous, for busy machines.
const PATIENCE: Duration = Duration::from_mins(1);

/// A data directory and a clock that moves only when it is set.
pub(crate) struct TestData {
    directory: TempDir,
    time: Arc<AtomicI64>,
}

impl TestData {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        Self { directory, time: Arc::new(AtomicI64::new(1_000_000)) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join(crate::DATABASE_NAME)
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn set_time(&self, micros: i64) {
        self.time.store(micros, Ordering::Relaxed);
    }

    pub(crate) fn options(&self, access: Access) -> StoreOptions {
        let time = Arc::clone(&self.time);
        let clock = Clock::new(move || Timestamp::from_micros(time.load(Ordering::Relaxed)));
        StoreOptions { clock, ..StoreOptions::new(access) }
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(&self.path(), self.options(Access::Tool)).unwrap()
    }

    /// A connection of another program.
    pub(crate) fn raw_connection(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    /// Changes the database as another program would.
    pub(crate) fn tamper(&self, statements: &str) {
        self.raw_connection().execute_batch(statements).unwrap();
    }
}

pub(crate) fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).unwrap()
}

pub(crate) fn begin(execution: &str, who: &str, code: &str) -> Begin {
    let execution = ExecutionId::parse(execution).unwrap();
    let code = Some(code.to_owned());
    Begin { code, ..Begin::new(execution, tenant(who), Activity::Cell) }
}

/// Begins and finishes executions `x1`, `x2` …, two records each.
pub(crate) fn executions(store: &Store, count: usize) {
    for number in 1..=count {
        execute(store, &format!("x{number}"), "ok");
    }
}

pub(crate) fn execute(store: &Store, execution: &str, outcome: &str) {
    let begin = begin(execution, "someone", "print(1)");
    let ticket = store.audit().begin(&begin).wait().unwrap();
    store.audit().finish(ticket, &Finish::new(outcome)).wait().unwrap();
}

/// Polls until a condition holds; false if it does not within `PATIENCE`.
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    holds()
}
