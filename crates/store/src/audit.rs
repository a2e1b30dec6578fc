//! The audit log: what was run for whom and how it ended, in a chain that shows tampering.
//!
//! Each record carries an authentication code over itself and the code of the record before it, made
//! with a key that lies beside the database in a file of its own (`audit.key`). The last record is
//! noted apart, authenticated too.
//!
//! What this shows: a record that was changed, moved, taken out or put in, and records that were cut
//! off at the end, by anybody who can write the database and does not have the key.
//!
//! What it does not show: anything done by somebody who has the key, which includes whoever runs the
//! server; and a database that was put back whole to an older state. For those, note the head now
//! and then in a place that the machine cannot change (`silica audit verify` prints it) and give it to
//! a later check: `silica audit verify --head SEQ:HASH`. Nor does it show lines that were removed from what
//! a killed server had only promised (`silica.pending`), or keep anybody from removing all of it. It is
//! evidence, not a lock.
//!
//! Records are ordered by their number, which has no gaps. Their times are what the clock said, and a
//! clock may go backwards.

mod body;
mod chain;
mod export;
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
use crate::journal::Promise;
use crate::{ExecutionId, Read, SandboxId, Store, StoreError, Tenant, Timestamp, Write};

pub use body::{
    Activity, Begin, BeginBody, ChangedFile, CodeBody, Finish, FinishBody, Note, NoteBody, Output,
    Usage,
};
pub(crate) use chain::ChainKey;
pub use chain::{Anchor, Head};
pub use export::{ExportError, verify_export};
pub use prune::Pruned;
pub use record::{Kind, Record};
pub use search::{Execution, SEARCH_MAX, Search, UNFINISHED};
pub use settings::{AuditSettings, CodeKept, Redaction, RedactionError};
pub use verify::{Fault, Noted, NotedHead, Summary, Verdict};

use chain::{Entry, append};

/// The most records that are read at once by [`Audit::tail`] and [`Audit::after`]; each may hold the
/// longest code.
pub const TAIL_MAX: usize = 1000;

/// What is needed to finish an execution that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The execution.
    pub execution: ExecutionId,
    tenant: Tenant,
    sandbox: Option<SandboxId>,
}

/// The beginning or the end of an execution, as it is promised.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ExecutionLine {
    time: Timestamp,
    kind: Kind,
    execution: String,
    tenant: String,
    sandbox: Option<String>,
    body: String,
}

impl ExecutionLine {
    /// Adds it to the log.
    pub(crate) fn append(&self, connection: &Connection, chain: &ChainKey) -> Result<(), Failure> {
        let entry = Entry {
            time: self.time,
            kind: self.kind,
            execution: Some(&self.execution),
            tenant: Some(&self.tenant),
            sandbox: self.sandbox.as_deref(),
            body: &self.body,
        };
        append(connection, chain, &entry).map(drop)
    }

    /// Whether it has been added.
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

    /// Records that an execution begins, before it does. A server that awaits this or the next may be answered
    /// when it is promised: it has to see to it itself that no two executions have the same name, and that
    /// none is finished twice.
    pub fn begin(self, begin: &Begin) -> Write<Ticket> {
        let ticket = Ticket {
            execution: begin.execution.clone(),
            tenant: begin.tenant.clone(),
            sandbox: begin.sandbox.clone(),
        };
        let body = body::text(&BeginBody::new(begin, self.store.settings()));
        self.promise(Kind::Begin, ticket, body, |ticket| StoreError::Duplicate {
            id: ticket.execution.to_string(),
        })
    }

    /// Records how an execution ended.
    pub fn finish(self, ticket: Ticket, finish: &Finish) -> Write<Ticket> {
        let body = body::text(&FinishBody::new(finish, self.store.settings()));
        self.promise(Kind::Finish, ticket, body, |ticket| StoreError::AlreadyFinished {
            execution: ticket.execution.clone(),
        })
    }

    fn promise(
        self,
        kind: Kind,
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
        self.store.promise(Promise::Execution(line), ticket, conflict)
    }

    /// Records something that is no execution: a key made, a server started.
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

    /// The last record's number and code, for noting elsewhere.
    pub fn head(self) -> Read<Head> {
        self.store.read(chain::head)
    }

    /// The last records, oldest first; at most [`TAIL_MAX`].
    pub fn tail(self, count: usize) -> Read<Vec<Record>> {
        self.store.read(move |connection| record::tail(connection, count.min(TAIL_MAX)))
    }

    /// The records after a number, oldest first; at most [`TAIL_MAX`].
    pub fn after(self, seq: u64) -> Read<Vec<Record>> {
        self.store.read(move |connection| record::after(connection, seq, TAIL_MAX))
    }

    /// Follows the log from its present end, or from a record before it.
    pub fn follow(self, after: u64) -> Follow {
        Follow { store: self.store.clone(), seen: after }
    }

    /// Executions that fit, newest first. What it says is as true as the log: see [`Audit::verify`].
    pub fn search(self, search: &Search) -> Read<Vec<Execution>> {
        let search = search.clone();
        self.store.read(move |connection| search::search(connection, &search))
    }

    /// Walks the whole chain and tells whether it is as it was written.
    pub fn verify(self, noted: Option<NotedHead>) -> Read<Verdict> {
        let key = ChainKey::load(self.store.place()).map(Arc::new);
        self.store.read(move |connection| verify::verify(connection, &*key?, noted))
    }

    /// Writes the whole log as JSON lines, on this thread, which should be one of the caller's own.
    /// The file can be checked by [`verify_export`].
    pub fn export(self, to: &mut dyn io::Write) -> Result<Head, ExportError> {
        export::export(self.store, to)
    }

    /// Removes what is older or more than the settings say, a bounded number at a time; nothing if
    /// there is nothing to remove. A server does this by itself.
    pub fn prune(self) -> Write<Option<Pruned>> {
        let (pruning, now) = (prune::Pruning::of(self.store.settings()), self.store.now());
        self.store.write_chained(
            move |connection, chain| prune::prune(connection, chain, pruning, now),
            || (),
        )
    }
}

/// Adds a note in a transaction that does something else too.
pub(crate) fn append_note(
    connection: &Connection,
    chain: &ChainKey,
    time: Timestamp,
    note: &Note,
) -> Result<Head, Failure> {
    let body = body::text(&NoteBody::new(note));
    let entry = Entry {
        time,
        kind: Kind::Note,
        execution: None,
        tenant: note.tenant.as_ref().map(Tenant::as_str),
        sandbox: note.sandbox.as_ref().map(SandboxId::as_str),
        body: &body,
    };
    append(connection, chain, &entry)
}

/// New records as they come, for whoever asks again and again.
#[derive(Clone, Debug)]
pub struct Follow {
    store: Store,
    seen: u64,
}

impl Follow {
    /// The records since the last time; nothing if there are none. It waits for none.
    pub fn poll(&mut self) -> Result<Vec<Record>, StoreError> {
        let records = self.store.audit().after(self.seen).wait()?;
        self.seen = records.last().map_or(self.seen, |last| last.seq);
        Ok(records)
    }
}
