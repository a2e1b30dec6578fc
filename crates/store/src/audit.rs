//! The audit log: what was executed for which key and how it ended, in a chain that shows
//! tampering.
//!
//! Each record carries an authentication code over itself and the code of the record before it,
//! made with a key in a file of its own beside the database (`audit.key`). The number and the code
//! of the last record, the head, are stored and authenticated separately.
//!
//! The chain shows if a record was changed, moved, removed or inserted, and if records were cut off
//! at the end, by a program that can write the database and does not have the key.
//!
//! It does not show changes by a program that has the key, which includes everything that runs as
//! the user of the server, nor a whole database that was replaced by an older copy. Against those,
//! record the head from time to time on another machine (`silica audit verify` prints it) and pass
//! it to a later check: `silica audit verify --head SEQ:HASH`. Nor does it show that lines were
//! removed from the journal of a killed server (`silica.pending`), and it does not prevent that the
//! log is deleted. It is evidence, not a lock.
//!
//! Records are ordered by their number, which has no gaps. Their times are those of the clock,
//! which may go backwards.

mod body;
mod chain;
mod export;
mod packing;
pub(crate) mod prune;
mod record;
mod search;
mod settings;
mod verify;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::journal::Pending;
use crate::{ExecutionId, Read, SandboxId, Store, StoreError, Tenant, Timestamp, Write};

pub use body::{
    Activity, Begin, BeginBody, CodeBody, Finish, FinishBody, Note, NoteBody, Output, RecordedFile,
    RecordedUsage,
};
pub(crate) use chain::ChainKey;
pub use chain::{Anchor, Head};
pub use export::{ExportError, verify_export};
pub use prune::Pruned;
pub use record::{Record, RecordKind};
use search::SearchState;
pub use search::{Execution, Found, SEARCH_MAX, Search, UNFINISHED};
pub use settings::{AuditSettings, CodeKept, Redaction, RedactionError};
pub use verify::{Fault, Noted, NotedHead, Summary, Verdict};

use chain::{ChainEntry, append};
use packing::RECORD_BYTES;

/// The most records that [`Audit::tail`] and [`Audit::after`] return; each may hold the longest
/// code.
pub const TAIL_MAX: usize = 1000;

/// The right to finish an execution that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The execution.
    pub execution: ExecutionId,
    tenant: Tenant,
    sandbox: Option<SandboxId>,
}

/// The beginning or the end of an execution as a line of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExecutionLine {
    time: Timestamp,
    kind: RecordKind,
    execution: String,
    tenant: String,
    sandbox: Option<String>,
    body: String,
}

impl ExecutionLine {
    /// Returns about how many bytes it takes in the log, before its code is compressed.
    pub(crate) fn bytes(&self) -> u64 {
        RECORD_BYTES + self.body.len() as u64
    }

    /// Appends it to the log.
    pub(crate) fn append(&self, connection: &Connection, chain: &ChainKey) -> Result<(), Failure> {
        let entry = ChainEntry {
            time: self.time,
            kind: self.kind,
            execution: Some(&self.execution),
            tenant: Some(&self.tenant),
            sandbox: self.sandbox.as_deref(),
            body: &self.body,
        };
        append(connection, chain, &entry).map(drop)
    }

    /// Returns when it was written.
    pub(crate) fn time(&self) -> Timestamp {
        self.time
    }

    /// Whether it is in the log.
    pub(crate) fn is_there(&self, connection: &Connection) -> Result<bool, Failure> {
        let statement = "SELECT EXISTS (SELECT 1 FROM audit WHERE execution = ?1 AND kind = ?2)";
        let mut statement = connection.prepare_cached(statement)?;
        Ok(statement.query_row((&self.execution, self.kind), |row| row.get(0))?)
    }
}

/// The audit log of a store.
#[derive(Clone, Copy, Debug)]
pub struct Audit<'store> {
    store: &'store Store,
}

impl<'store> Audit<'store> {
    pub(crate) fn new(store: &'store Store) -> Self {
        Self { store }
    }

    /// Records that an execution begins; to be called before it does. In a server this and
    /// [`Audit::finish`] may be answered when they are in the journal, so the server must itself
    /// ensure that ids are unique and that no execution is finished twice.
    pub fn begin(self, begin: &Begin) -> Write<Ticket> {
        let ticket = Ticket {
            execution: begin.execution.clone(),
            tenant: begin.tenant.clone(),
            sandbox: begin.sandbox.clone(),
        };
        let body = body::text(&BeginBody::new(begin, self.store.settings()));
        self.record(RecordKind::Begin, ticket, body, |ticket| StoreError::Duplicate {
            id: ticket.execution.to_string(),
        })
    }

    /// Records how an execution ended.
    pub fn finish(self, ticket: Ticket, finish: &Finish) -> Write<Ticket> {
        let body = body::text(&FinishBody::new(finish, self.store.settings()));
        self.record(RecordKind::Finish, ticket, body, |ticket| StoreError::AlreadyFinished {
            execution: ticket.execution.clone(),
        })
    }

    fn record(
        self,
        kind: RecordKind,
        ticket: Ticket,
        body: String,
        conflict: fn(&Ticket) -> StoreError,
    ) -> Write<Ticket> {
        let line = ExecutionLine {
            time: self.store.now(),
            kind,
            execution: ticket.execution.to_string(),
            tenant: ticket.tenant.to_string(),
            sandbox: ticket.sandbox.as_ref().map(SandboxId::to_string),
            body,
        };
        self.store.write_pending(Pending::Execution(line), ticket, conflict)
    }

    /// Records an event that is not an execution, such as a new key or the start of a server.
    pub fn note(self, note: Note) -> Write<Head> {
        let time = self.store.now();
        let note = note.redacted(self.store.settings());
        self.store.write_chained(
            move |connection, chain| append_note(connection, chain, time, &note),
            || (),
        )
    }

    /// Finds the ticket of an execution that was begun, by this process or another.
    pub fn ticket(self, execution: &ExecutionId) -> Read<Option<Ticket>> {
        let execution = execution.clone();
        self.store.read(move |connection| {
            let statement =
                "SELECT tenant, sandbox FROM audit WHERE execution = ?1 AND kind = 'begin'";
            let found = connection
                .prepare_cached(statement)?
                .query_row([&execution], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            Ok(found.map(|(tenant, sandbox)| Ticket { execution, tenant, sandbox }))
        })
    }

    /// Returns the head: the number and the code of the last record.
    pub fn head(self) -> Read<Head> {
        self.store.read(chain::head)
    }

    /// Returns the last records, oldest first; at most [`TAIL_MAX`].
    pub fn tail(self, count: usize) -> Read<Vec<Record>> {
        self.store.read(move |connection| record::tail(connection, count.min(TAIL_MAX)))
    }

    /// Returns the records after a number, oldest first; at most [`TAIL_MAX`].
    pub fn after(self, seq: u64) -> Read<Vec<Record>> {
        self.store.read(move |connection| record::after(connection, seq, TAIL_MAX))
    }

    /// Follows the log from after a record.
    pub fn follow(self, after: u64) -> Follow {
        Follow { store: self.store.clone(), seen: after }
    }

    /// Finds executions, newest first. The result is as reliable as the log: see [`Audit::verify`].
    pub fn search(self, search: &Search) -> Read<Vec<Execution>> {
        let search = search.clone();
        self.store.read(move |connection| search::search(connection, &search))
    }

    /// Finds executions, newest first, of about `bytes_max` bytes at most and one more. It reads in short steps, so that
    /// other reads have their turn.
    pub async fn search_within(self, search: &Search, bytes_max: u64) -> Result<Found, StoreError> {
        self.store.flushed().await?;
        let mut state = SearchState::default();
        while !state.is_over {
            let search = search.clone();
            let step =
                move |connection: &Connection| search::step(connection, &search, bytes_max, state);
            state = self.store.read_committed(step).await?;
        }
        Ok(state.found)
    }

    /// Checks the whole chain.
    pub fn verify(self, noted: Option<NotedHead>) -> Read<Verdict> {
        let key = ChainKey::load(self.store.paths()).map(Arc::new);
        self.store.read(move |connection| verify::verify(connection, &*key?, noted))
    }

    /// Writes the whole log as JSON lines. Blocks; must not be called in an async task. The file
    /// can be checked by [`verify_export`].
    pub fn export(self, to: &mut dyn io::Write) -> Result<Head, ExportError> {
        export::export(self.store, to)
    }

    /// Removes records beyond the age, the number or the size of the settings, a bounded number at a time.
    /// Returns `None` if there are none. A server does this by itself.
    pub fn prune(self) -> Write<Option<Pruned>> {
        let pruning = prune::Pruning::of(self.store.settings());
        let now = self.store.now();
        self.store.write_chained(
            move |connection, chain| prune::prune(connection, chain, pruning, now),
            || (),
        )
    }
}

/// Appends a note, in the transaction of the change that it records.
pub(crate) fn append_note(
    connection: &Connection,
    chain: &ChainKey,
    time: Timestamp,
    note: &Note,
) -> Result<Head, Failure> {
    let body = body::text(&NoteBody::new(note));
    let entry = ChainEntry {
        time,
        kind: RecordKind::Note,
        execution: None,
        tenant: note.tenant.as_ref().map(Tenant::as_str),
        sandbox: note.sandbox.as_ref().map(SandboxId::as_str),
        body: &body,
    };
    append(connection, chain, &entry)
}

/// Returns when records were pruned last; `None` if none ever were.
pub(crate) fn pruned_at(connection: &Connection) -> Result<Option<Timestamp>, Failure> {
    Ok(chain::stored_anchor(connection)?.map(|(anchor, _)| anchor.pruned_at))
}

/// Returns new records each time it is polled.
#[derive(Clone, Debug)]
pub struct Follow {
    store: Store,
    seen: u64,
}

impl Follow {
    /// Returns the records since the last call; empty if there are none. Does not wait for any.
    pub fn poll(&mut self) -> Result<Vec<Record>, StoreError> {
        let records = self.store.audit().after(self.seen).wait()?;
        self.seen = records.last().map_or(self.seen, |last| last.seq);
        Ok(records)
    }
}
