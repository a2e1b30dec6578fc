//! A server's housekeeping beside the writer: moving the log into the file, and forgetting what has
//! been kept long enough. Nobody waits for it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::audit::ChainKey;
use crate::audit::prune::{Pruning, prune};
use crate::file::Place;
use crate::sandboxes::forget_ended;
use crate::store::{Clock, StoreOptions};
use crate::writer::{WeakWriter, Writer};
use crate::{StoreError, Timestamp};

/// How often the age of records is looked at.
const FORGET_PAUSE: Duration = Duration::from_mins(1);
/// Steps of forgetting in a row; each is one short transaction, and the rest waits for the next turn.
const STEPS_MAX: usize = 1000;

/// The housekeeping before it is started.
#[derive(Debug)]
pub(crate) struct Keeper {
    nudge: SyncSender<()>,
    nudges: Receiver<()>,
    place: Place,
    pruning: Pruning,
    ended_kept: Option<Duration>,
    clock: Clock,
}

impl Keeper {
    pub(crate) fn new(place: &Place, options: &StoreOptions) -> Self {
        let (nudge, nudges) = sync_channel(1);
        Self {
            nudge,
            nudges,
            place: place.clone(),
            pruning: Pruning::of(&options.audit),
            ended_kept: options.ended_kept,
            clock: options.clock.clone(),
        }
    }

    /// Where the writer says that the log has grown. When it has gone, so will this.
    pub(crate) fn nudge(&self) -> SyncSender<()> {
        self.nudge.clone()
    }

    pub(crate) fn start(self, writer: WeakWriter, chain: Arc<ChainKey>) -> Result<(), StoreError> {
        let Self { nudge, nudges, place, pruning, ended_kept, clock } = self;
        // Only the writer's end is left, so that the channel closes with the writer.
        drop(nudge);
        let forgetting = Forgetting { writer, chain, pruning, ended_kept, clock };
        std::thread::Builder::new()
            .name("silica-keeper".to_owned())
            .spawn(move || keep(&nudges, &place, &forgetting))
            .map(drop)
            .map_err(|error| StoreError::io("cannot start the store's housekeeping", error))
    }
}

/// What has to be forgotten, and when.
struct Forgetting {
    writer: WeakWriter,
    chain: Arc<ChainKey>,
    pruning: Pruning,
    ended_kept: Option<Duration>,
    clock: Clock,
}

fn keep(nudges: &Receiver<()>, place: &Place, forgetting: &Forgetting) {
    let mut next = Instant::now();
    loop {
        match nudges.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(()) => report("its log could not be moved into it", checkpoint(place)),
            Err(RecvTimeoutError::Timeout) => {
                report("old records could not be removed", forgetting.forget());
                next = Instant::now() + FORGET_PAUSE;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn report(what: &str, result: Result<(), StoreError>) {
    match result {
        // It was closed meanwhile.
        Ok(()) | Err(StoreError::Closed) => {}
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the store goes on, but {what}");
        }
    }
}

/// Moves what it can of the log into the file without stopping anybody, and waits for the disk here
/// and not in the writer.
fn checkpoint(place: &Place) -> Result<(), StoreError> {
    let run = || {
        let connection = Connection::open(&place.database)?;
        connection.busy_timeout(place.patience)?;
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    };
    run().map_err(|error| place.explain(error))
}

impl Forgetting {
    fn forget(&self) -> Result<(), StoreError> {
        self.forget_sandboxes()?;
        self.prune_audit()
    }

    /// The writer, but only for as long as one step takes: it must be able to end in between.
    fn writer(&self) -> Result<Writer, StoreError> {
        self.writer.upgrade().ok_or(StoreError::Closed)
    }

    fn forget_sandboxes(&self) -> Result<(), StoreError> {
        let Some(kept) = self.ended_kept else {
            return Ok(());
        };
        let before: Timestamp = self.clock.now().before(kept);
        for _ in 0..STEPS_MAX {
            let work = move |connection: &Connection| forget_ended(connection, before);
            if self.writer()?.write(work, || ()).wait()? == 0 {
                break;
            }
        }
        Ok(())
    }

    fn prune_audit(&self) -> Result<(), StoreError> {
        for _ in 0..STEPS_MAX {
            let (chain, pruning, now) = (Arc::clone(&self.chain), self.pruning, self.clock.now());
            let work = move |connection: &Connection| prune(connection, &chain, pruning, now);
            if self.writer()?.write(work, || ()).wait()?.is_none() {
                break;
            }
        }
        Ok(())
    }
}
