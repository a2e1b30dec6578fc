//! Records of sandboxes: which there are, whose, and how those that are gone ended.
//!
//! A record is made when a sandbox is, and outlives it. What a server that died left as running is
//! marked as lost by the next one.

mod list;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::str::FromStr;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Failure;
use crate::journal::Promise;
use crate::{IdError, Read, SandboxId, Store, StoreError, Tenant, Timestamp, Write};

pub use list::{Filter, Order, PAGE_MAX, Page, PageToken};

/// The most pairs of metadata of one sandbox.
const PAIRS_MAX: usize = 64;
/// The longest metadata, limits and usage, each as JSON.
const JSON_BYTES_MAX: usize = 16 * 1024;
/// The longest reason of an end; more is cut off.
const REASON_CHARS_MAX: usize = 1000;
/// Records that are forgotten in one transaction.
const FORGET_MAX: usize = 1000;

/// What a user says about a sandbox.
pub type Metadata = BTreeMap<String, String>;

/// Whether a sandbox is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// It is there.
    Running,
    /// It was ended.
    Ended,
    /// The server went away without ending it.
    Lost,
}

impl State {
    /// Its name in the file and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Lost => "lost",
        }
    }
}

impl FromStr for State {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let states = [Self::Running, Self::Ended, Self::Lost];
        let found = states.into_iter().find(|state| state.name() == text);
        found.ok_or_else(|| IdError::new("state (running, ended, lost)", text))
    }
}

impl Serialize for State {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl ToSql for State {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.name().into())
    }
}

impl FromSql for State {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(FromSqlError::other)
    }
}

/// A sandbox to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSandbox {
    /// Its id.
    pub id: SandboxId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What it started from.
    pub template: String,
    /// What its user says about it.
    pub metadata: Metadata,
    /// Its limits, whatever they mean to the server.
    pub limits: Value,
    /// When it will be ended, if it will.
    pub expires_at: Option<Timestamp>,
}

/// What is known of a sandbox.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SandboxRecord {
    /// Its id.
    pub id: SandboxId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What it started from.
    pub template: String,
    /// What its user says about it.
    pub metadata: Metadata,
    /// Its limits, whatever they mean to the server.
    pub limits: Value,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it will be or was to be ended, if so.
    pub expires_at: Option<Timestamp>,
    /// Whether it is there.
    pub state: State,
    /// Why it is not.
    pub end_reason: Option<String>,
    /// Since when it is not.
    pub ended_at: Option<Timestamp>,
    /// What it had used, when that was last noted.
    pub usage: Option<Value>,
}

/// A new sandbox, as it is promised; metadata and limits as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SandboxLine {
    id: String,
    tenant: String,
    template: String,
    metadata: String,
    limits: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
}

impl SandboxLine {
    /// Records it as running.
    pub(crate) fn insert(&self, connection: &Connection) -> Result<(), Failure> {
        let statement = "INSERT INTO sandbox (id, tenant, template, metadata, limits, created_at, \
                         expires_at, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let Self { id, tenant, template, metadata, limits, created_at, expires_at } = self;
        let (mut statement, state) = (connection.prepare_cached(statement)?, State::Running);
        statement.execute(params![
            id, tenant, template, metadata, limits, created_at, expires_at, state
        ])?;
        Ok(())
    }

    /// Whether it has been recorded.
    pub(crate) fn is_there(&self, connection: &Connection) -> Result<bool, Failure> {
        let statement = "SELECT EXISTS (SELECT 1 FROM sandbox WHERE id = ?1)";
        Ok(connection.prepare_cached(statement)?.query_row([&self.id], |row| row.get(0))?)
    }
}

/// The end of a sandbox, as it is promised; usage as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EndLine {
    id: String,
    reason: String,
    ended_at: Timestamp,
    usage: Option<String>,
}

impl EndLine {
    /// Records it, unless it has ended otherwise.
    pub(crate) fn update(&self, connection: &Connection) -> Result<(), Failure> {
        let statement = "UPDATE sandbox SET state = 'ended', end_reason = ?2, ended_at = ?3, \
                         usage = coalesce(?4, usage) WHERE id = ?1 AND state = 'running'";
        let Self { id, reason, ended_at, usage } = self;
        connection.prepare_cached(statement)?.execute(params![id, reason, ended_at, usage])?;
        Ok(())
    }
}

/// The sandboxes of a store.
#[derive(Clone, Copy, Debug)]
pub struct Sandboxes<'store> {
    store: &'store Store,
}

impl<'store> Sandboxes<'store> {
    pub(crate) fn new(store: &'store Store) -> Self {
        Self { store }
    }

    /// Records a new one as running. A server that awaits it may be answered when it is promised, and has to
    /// see to it itself that no two have the same name.
    pub fn insert(self, new: NewSandbox) -> Write<SandboxRecord> {
        let checked =
            metadata_json(&new.metadata).and_then(|metadata| Ok((metadata, json(&new.limits)?)));
        let (metadata, limits) = match checked {
            Ok(checked) => checked,
            Err(error) => return Write::refused(error),
        };
        let record = SandboxRecord {
            id: new.id,
            tenant: new.tenant,
            template: new.template,
            metadata: new.metadata,
            limits: new.limits,
            created_at: self.store.now(),
            expires_at: new.expires_at,
            state: State::Running,
            end_reason: None,
            ended_at: None,
            usage: None,
        };
        let line = SandboxLine {
            id: record.id.to_string(),
            tenant: record.tenant.to_string(),
            template: record.template.clone(),
            metadata,
            limits,
            created_at: record.created_at,
            expires_at: record.expires_at,
        };
        self.store.promise(Promise::Sandbox(line), record, |record| StoreError::Duplicate {
            id: record.id.to_string(),
        })
    }

    /// Changes when a running one will be ended; false if there is no such.
    pub fn set_expiry(self, id: &SandboxId, expires_at: Option<Timestamp>) -> Write<bool> {
        let id = id.clone();
        self.store.write(move |connection| {
            let statement =
                "UPDATE sandbox SET expires_at = ?2 WHERE id = ?1 AND state = 'running'";
            let changed = connection.prepare_cached(statement)?.execute(params![id, expires_at])?;
            Ok(changed > 0)
        })
    }

    /// Changes what is said about a running one; false if there is no such.
    pub fn set_metadata(self, id: &SandboxId, metadata: &Metadata) -> Write<bool> {
        let (id, metadata) = match metadata_json(metadata) {
            Ok(metadata) => (id.clone(), metadata),
            Err(error) => return Write::refused(error),
        };
        self.store.write(move |connection| {
            let statement = "UPDATE sandbox SET metadata = ?2 WHERE id = ?1 AND state = 'running'";
            let changed = connection.prepare_cached(statement)?.execute(params![id, metadata])?;
            Ok(changed > 0)
        })
    }

    /// Records the end of a running one; nothing if there is no such. A server that awaits it may be answered
    /// when it is promised.
    pub fn finish(self, id: &SandboxId, reason: &str, usage: Option<&Value>) -> Write<()> {
        let usage = match usage.map(json).transpose() {
            Ok(usage) => usage,
            Err(error) => return Write::refused(error),
        };
        let (id, reason, ended_at) = (id.to_string(), shorten(reason), self.store.now());
        let line = EndLine { id, reason, ended_at, usage };
        // There is nothing that an end could be in conflict with.
        self.store.promise(Promise::End(line), (), |()| StoreError::Closed)
    }

    /// Marks every running one as lost and tells how many. A server does this when it starts, while
    /// it holds the lock that no other server has.
    pub fn mark_lost(self, reason: &str) -> Write<usize> {
        let (reason, now) = (shorten(reason), self.store.now());
        self.store.write(move |connection| {
            let statement = "UPDATE sandbox SET state = 'lost', end_reason = ?1, ended_at = ?2 \
                             WHERE state = 'running'";
            Ok(connection.prepare_cached(statement)?.execute(params![reason, now])?)
        })
    }

    /// One of them.
    pub fn get(self, id: &SandboxId) -> Read<Option<SandboxRecord>> {
        let id = id.clone();
        self.store.read(move |connection| {
            let statement = format!("SELECT {COLUMNS} FROM sandbox WHERE id = ?1");
            let mut statement = connection.prepare_cached(&statement)?;
            Ok(statement.query_row([id], record).optional()?)
        })
    }

    /// A page of those that fit.
    pub fn list(self, filter: &Filter) -> Read<Page> {
        let filter = filter.clone();
        self.store.read(move |connection| list::list(connection, &filter))
    }
}

/// Forgets some of those that ended before a moment and tells how many.
pub(crate) fn forget_ended(connection: &Connection, before: Timestamp) -> Result<usize, Failure> {
    let statement = "DELETE FROM sandbox WHERE id IN (SELECT id FROM sandbox \
                     WHERE ended_at IS NOT NULL AND ended_at < ?1 LIMIT ?2)";
    let mut statement = connection.prepare_cached(statement)?;
    Ok(statement.execute(params![before, FORGET_MAX as i64])?)
}

const COLUMNS: &str = "id, tenant, template, metadata, limits, created_at, expires_at, state, \
                       end_reason, ended_at, usage";

fn record(row: &Row<'_>) -> rusqlite::Result<SandboxRecord> {
    Ok(SandboxRecord {
        id: row.get("id")?,
        tenant: row.get("tenant")?,
        template: row.get("template")?,
        metadata: row.get::<_, FromJson<Metadata>>("metadata")?.0,
        limits: row.get::<_, FromJson<Value>>("limits")?.0,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        state: row.get("state")?,
        end_reason: row.get("end_reason")?,
        ended_at: row.get("ended_at")?,
        usage: row.get::<_, Option<FromJson<Value>>>("usage")?.map(|usage| usage.0),
    })
}

/// A column that holds JSON.
struct FromJson<T>(T);

impl<T: serde::de::DeserializeOwned> FromSql for FromJson<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}

fn metadata_json(metadata: &Metadata) -> Result<String, StoreError> {
    StoreError::check_size("the number of metadata pairs", metadata.len(), PAIRS_MAX)?;
    json(metadata)
}

fn json(value: &impl Serialize) -> Result<String, StoreError> {
    let text = serde_json::to_string(value)
        .map_err(|error| StoreError::io("cannot write JSON", error.into()))?;
    StoreError::check_size("JSON in bytes", text.len(), JSON_BYTES_MAX)?;
    Ok(text)
}

fn shorten(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}
