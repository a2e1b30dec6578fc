//! A server's housekeeping, on a thread of its own beside the writer: moving the write-ahead log
//! into the file, and deleting records that have been kept long enough.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::audit::ChainKey;
use crate::audit::prune::{Pruning, prune};
use crate::file::StorePaths;
use crate::sandboxes::delete_ended;
use crate::store::{Clock, StoreOptions};
use crate::writer::{WeakWriter, Writer};
use crate::{StoreError, Timestamp};

/// How often old records are looked for.
const DELETE_PAUSE: Duration = Duration::from_mins(1);
/// Steps of deleting in a row. Each is one short transaction; the rest waits for the next time.
const STEPS_MAX: usize = 1000;

/// The housekeeping before it is started.
#[derive(Debug)]
pub(crate) struct Housekeeper {
    checkpoint_due: SyncSender<()>,
    checkpoints: Receiver<()>,
    paths: StorePaths,
    pruning: Pruning,
    ended_kept: Option<Duration>,
    clock: Clock,
}

impl Housekeeper {
    pub(crate) fn new(paths: &StorePaths, options: &StoreOptions) -> Self {
        let (checkpoint_due, checkpoints) = sync_channel(1);
        Self {
            checkpoint_due,
            checkpoints,
            paths: paths.clone(),
            pruning: Pruning::of(&options.audit),
            ended_kept: options.ended_kept,
            clock: options.clock.clone(),
        }
    }

    /// Returns the channel by which the writer asks for a checkpoint. The housekeeping ends when
    /// the writer drops it.
    pub(crate) fn checkpoint_due(&self) -> SyncSender<()> {
        self.checkpoint_due.clone()
    }

    pub(crate) fn start(self, writer: WeakWriter, chain: Arc<ChainKey>) -> Result<(), StoreError> {
        let Self { checkpoint_due, checkpoints, paths, pruning, ended_kept, clock } = self;
        // Only the writer's end is left, so that the channel closes with the writer.
        drop(checkpoint_due);
        let retention = Retention { writer, chain, pruning, ended_kept, clock };
        std::thread::Builder::new()
            .name("silica-keeper".to_owned())
            .spawn(move || run(&checkpoints, &paths, &retention))
            .map(drop)
            .map_err(|error| StoreError::io("cannot start the store's housekeeping", error))
    }
}

/// What is deleted, and at which age.
struct Retention {
    writer: WeakWriter,
    chain: Arc<ChainKey>,
    pruning: Pruning,
    ended_kept: Option<Duration>,
    clock: Clock,
}

fn run(checkpoints: &Receiver<()>, paths: &StorePaths, retention: &Retention) {
    let mut next = Instant::now();
    loop {
        match checkpoints.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(()) => {
                report("the write-ahead log could not be moved into the file", checkpoint(paths));
            }
            Err(RecvTimeoutError::Timeout) => {
                report("old records could not be deleted", retention.delete_old());
                next = Instant::now() + DELETE_PAUSE;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn report(what: &str, result: Result<(), StoreError>) {
    match result {
        // The store was closed meanwhile.
        Ok(()) | Err(StoreError::Closed) => {}
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "{what}; the store goes on and tries again later");
        }
    }
}

/// Moves what it can of the write-ahead log into the file, without blocking readers or writers. The
/// waiting for the disk happens here and not in the writer.
fn checkpoint(paths: &StorePaths) -> Result<(), StoreError> {
    let run = || {
        let connection = Connection::open(&paths.database)?;
        connection.busy_timeout(paths.patience)?;
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    };
    run().map_err(|error| paths.explain(error))
}

impl Retention {
    fn delete_old(&self) -> Result<(), StoreError> {
        self.delete_sandboxes()?;
        self.prune_audit()
    }

    /// Returns the writer, to be held for one step only, so that it can end in between.
    fn writer(&self) -> Result<Writer, StoreError> {
        self.writer.upgrade().ok_or(StoreError::Closed)
    }

    fn delete_sandboxes(&self) -> Result<(), StoreError> {
        let Some(kept) = self.ended_kept else {
            return Ok(());
        };
        let before: Timestamp = self.clock.now().before(kept);
        for _ in 0..STEPS_MAX {
            let work = move |connection: &Connection| delete_ended(connection, before);
            if self.writer()?.write(work, || ()).wait()? == 0 {
                break;
            }
        }
        Ok(())
    }

    fn prune_audit(&self) -> Result<(), StoreError> {
        for _ in 0..STEPS_MAX {
            let chain = Arc::clone(&self.chain);
            let pruning = self.pruning;
            let now = self.clock.now();
            let work = move |connection: &Connection| prune(connection, &chain, pruning, now);
            if self.writer()?.write(work, || ()).wait()?.is_none() {
                break;
            }
        }
        Ok(())
    }
}
