//! A server's housekeeping, on a thread of its own beside the writer: moving the write-ahead log
//! into the file, and deleting records that have been kept long enough or are too many.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::audit::ChainKey;
use crate::audit::prune::{Pruning, prune};
use crate::file::StorePaths;
use crate::reader::ReadTurns;
use crate::sandboxes::{delete_ended, delete_ended_beyond};
use crate::store::{Clock, StoreOptions};
use crate::writer::{WeakWriter, Writer};
use crate::{StoreError, Timestamp};

/// How often old records are looked for.
const DELETE_PAUSE: Duration = Duration::from_mins(1);
/// The length of the write-ahead log up to which it is left as it is. A longer one is emptied.
pub(crate) const LOG_BYTES_KEPT: u64 = 8 * 1024 * 1024;
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
    ended_max: Option<u64>,
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
            ended_max: options.ended_max,
            clock: options.clock.clone(),
        }
    }

    /// Returns the channel by which the writer asks for a checkpoint. The housekeeping ends when
    /// the writer drops it.
    pub(crate) fn checkpoint_due(&self) -> SyncSender<()> {
        self.checkpoint_due.clone()
    }

    pub(crate) fn start(
        self,
        writer: WeakWriter,
        chain: Arc<ChainKey>,
        turns: ReadTurns,
    ) -> Result<(), StoreError> {
        let Self { checkpoint_due, checkpoints, paths, pruning, ended_kept, ended_max, clock } =
            self;
        // Only the writer's end is left, so that the channel closes with the writer.
        drop(checkpoint_due);
        let retention = Retention { writer, chain, pruning, ended_kept, ended_max, clock };
        std::thread::Builder::new()
            .name("silica-keeper".to_owned())
            .spawn(move || run(&checkpoints, &paths, &turns, &retention))
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
    ended_max: Option<u64>,
    clock: Clock,
}

fn run(checkpoints: &Receiver<()>, paths: &StorePaths, turns: &ReadTurns, retention: &Retention) {
    let mut next = Instant::now();
    loop {
        match checkpoints.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(()) => {
                let what = "the write-ahead log could not be moved into the file";
                report(what, checkpoint(paths, turns));
                report("old records could not be deleted", retention.prune_audit());
            }
            Err(RecvTimeoutError::Timeout) => {
                report("old records could not be deleted", retention.delete_old());
                if paths.log_bytes() > LOG_BYTES_KEPT {
                    let what = "the write-ahead log could not be moved into the file";
                    report(what, checkpoint(paths, turns));
                }
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
/// waiting for the disk happens here and not in the writer. A log that has become long is then
/// emptied, for which writers wait while the few records that were added meanwhile are moved. Reads
/// overlap, and one of them would keep the log as it is: so they wait for that moment, too. If they
/// take too long to end, or if a writer is at work, this is left for the next time.
fn checkpoint(paths: &StorePaths, turns: &ReadTurns) -> Result<(), StoreError> {
    let run = || {
        let connection = Connection::open(&paths.database)?;
        connection.busy_timeout(paths.patience)?;
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        if paths.log_bytes() > LOG_BYTES_KEPT {
            let _all_turns = turns.take_all();
            connection.busy_timeout(Duration::ZERO)?;
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        Ok::<_, rusqlite::Error>(())
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
        let before: Option<Timestamp> = self.ended_kept.map(|kept| self.clock.now().before(kept));
        let most = self.ended_max;
        for _ in 0..STEPS_MAX {
            let work = move |connection: &Connection| {
                let old = before.map_or(Ok(0), |before| delete_ended(connection, before))?;
                Ok(old + most.map_or(Ok(0), |most| delete_ended_beyond(connection, most))?)
            };
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
            let Some(pruned) = self.writer()?.write(work, || ()).wait()? else { break };
            tracing::info!(
                records = pruned.records,
                up_to = pruned.up_to,
                "the oldest records of the audit log were removed"
            );
        }
        Ok(())
    }
}
