//! Records of sandboxes: those that run and those that have ended, with their owners.
//!
//! A record is made along with its sandbox and outlives it. Sandboxes that were running when a
//! server died are marked as lost by the next server.

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
use crate::journal::Pending;
use crate::{IdError, Read, SandboxId, Store, StoreError, Tenant, Timestamp, Write};

pub use list::{Filter, Order, PAGE_MAX, Page, PageToken};

/// The most pairs of metadata of one sandbox.
const PAIRS_MAX: usize = 64;
/// The longest JSON of metadata, of limits and of usage.
const JSON_BYTES_MAX: usize = 16 * 1024;
/// The longest reason of an end; more is cut off.
const REASON_CHARS_MAX: usize = 1000;
/// Records that are deleted in one transaction.
const DELETE_MAX: usize = 1000;

/// The metadata that a client gives to a sandbox.
pub type SandboxMetadata = BTreeMap<String, String>;

/// The state of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// It runs.
    Running,
    /// It was ended.
    Ended,
    /// Its server died without ending it.
    Lost,
}

impl State {
    /// Returns its name in the database and in JSON.
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
    /// Its owner.
    pub tenant: Tenant,
    /// The template it was made from.
    pub template: String,
    /// The metadata that its client gave.
    pub metadata: SandboxMetadata,
    /// Its limits, as JSON of the server's.
    pub limits: Value,
    /// When it will be ended; `None` for never.
    pub expires_at: Option<Timestamp>,
}

/// A sandbox as it is recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SandboxRecord {
    /// Its id.
    pub id: SandboxId,
    /// Its owner.
    pub tenant: Tenant,
    /// The template it was made from.
    pub template: String,
    /// The metadata that its client gave.
    pub metadata: SandboxMetadata,
    /// Its limits, as JSON of the server's.
    pub limits: Value,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it will be, or was to be, ended; `None` for never.
    pub expires_at: Option<Timestamp>,
    /// Its state.
    pub state: State,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// What it had used, when that was last recorded.
    pub usage: Option<Value>,
}

/// A new sandbox as a line of the journal; metadata and limits are JSON.
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
    /// Returns the length of its texts.
    pub(crate) fn bytes(&self) -> u64 {
        let texts = [&self.id, &self.tenant, &self.template, &self.metadata, &self.limits];
        texts.iter().map(|text| text.len() as u64).sum()
    }

    /// Inserts its record.
    pub(crate) fn insert(&self, connection: &Connection) -> Result<(), Failure> {
        let statement = "INSERT INTO sandbox (id, tenant, template, metadata, limits, created_at, \
                         expires_at, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let Self { id, tenant, template, metadata, limits, created_at, expires_at } = self;
        let state = State::Running;
        let mut statement = connection.prepare_cached(statement)?;
        statement.execute(params![
            id, tenant, template, metadata, limits, created_at, expires_at, state
        ])?;
        Ok(())
    }

    /// Whether its record is in the database.
    pub(crate) fn is_there(&self, connection: &Connection) -> Result<bool, Failure> {
        let statement = "SELECT EXISTS (SELECT 1 FROM sandbox WHERE id = ?1)";
        Ok(connection.prepare_cached(statement)?.query_row([&self.id], |row| row.get(0))?)
    }
}

/// The end of a sandbox as a line of the journal; usage is JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EndLine {
    id: String,
    reason: String,
    ended_at: Timestamp,
    usage: Option<String>,
}

impl EndLine {
    /// Records the end, unless the sandbox has ended already.
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

    /// Records a new sandbox as running. In a server this may be answered when it is in the
    /// journal, so the server must itself ensure that ids are unique.
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
        self.store.write_pending(Pending::Sandbox(line), record, |record| StoreError::Duplicate {
            id: record.id.to_string(),
        })
    }

    /// Changes when a running sandbox will be ended; false if there is none of this id.
    pub fn set_expiry(self, id: &SandboxId, expires_at: Option<Timestamp>) -> Write<bool> {
        let id = id.clone();
        self.store.write(move |connection| {
            let statement =
                "UPDATE sandbox SET expires_at = ?2 WHERE id = ?1 AND state = 'running'";
            let changed = connection.prepare_cached(statement)?.execute(params![id, expires_at])?;
            Ok(changed > 0)
        })
    }

    /// Records the end of a running sandbox; does nothing if there is none of this id. In a server
    /// this may be answered when it is in the journal.
    pub fn finish(self, id: &SandboxId, reason: &str, usage: Option<&Value>) -> Write<()> {
        let usage = match usage.map(json).transpose() {
            Ok(usage) => usage,
            Err(error) => return Write::refused(error),
        };
        let line = EndLine {
            id: id.to_string(),
            reason: shorten(reason),
            ended_at: self.store.now(),
            usage,
        };
        // An update violates no constraint, so this error never occurs.
        self.store.write_pending(Pending::End(line), (), |()| StoreError::Closed)
    }

    /// Marks all running sandboxes as lost; returns how many. A server does this when it starts,
    /// while it holds the lock of the server.
    pub fn mark_lost(self, reason: &str) -> Write<usize> {
        let reason = shorten(reason);
        let now = self.store.now();
        self.store.write(move |connection| {
            let statement = "UPDATE sandbox SET state = 'lost', end_reason = ?1, ended_at = ?2 \
                             WHERE state = 'running'";
            Ok(connection.prepare_cached(statement)?.execute(params![reason, now])?)
        })
    }

    /// Finds a record.
    pub fn get(self, id: &SandboxId) -> Read<Option<SandboxRecord>> {
        let id = id.clone();
        self.store.read(move |connection| {
            let statement = format!("SELECT {COLUMNS} FROM sandbox WHERE id = ?1");
            let mut statement = connection.prepare_cached(&statement)?;
            Ok(statement.query_row([id], record).optional()?)
        })
    }

    /// Lists a page of the records that match a filter.
    pub fn list(self, filter: &Filter) -> Read<Page> {
        let filter = filter.clone();
        self.store.read(move |connection| list::list(connection, &filter))
    }
}

/// Deletes some records of sandboxes that ended before a time; returns how many.
pub(crate) fn delete_ended(connection: &Connection, before: Timestamp) -> Result<usize, Failure> {
    let statement = "DELETE FROM sandbox WHERE id IN (SELECT id FROM sandbox \
                     WHERE ended_at IS NOT NULL AND ended_at < ?1 LIMIT ?2)";
    let mut statement = connection.prepare_cached(statement)?;
    Ok(statement.execute(params![before, DELETE_MAX as i64])?)
}

/// Deletes some records of ended sandboxes beyond the newest `most`; returns how many.
pub(crate) fn delete_ended_beyond(connection: &Connection, most: u64) -> Result<usize, Failure> {
    let statement = "DELETE FROM sandbox WHERE id IN (SELECT id FROM sandbox \
                     WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT ?2 OFFSET ?1)";
    let mut statement = connection.prepare_cached(statement)?;
    Ok(statement.execute(params![most as i64, DELETE_MAX as i64])?)
}

const COLUMNS: &str = "id, tenant, template, metadata, limits, created_at, expires_at, state, \
                       end_reason, ended_at, usage";

fn record(row: &Row<'_>) -> rusqlite::Result<SandboxRecord> {
    Ok(SandboxRecord {
        id: row.get("id")?,
        tenant: row.get("tenant")?,
        template: row.get("template")?,
        metadata: row.get::<_, FromJson<SandboxMetadata>>("metadata")?.0,
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

fn metadata_json(metadata: &SandboxMetadata) -> Result<String, StoreError> {
    StoreError::check_size("the number of metadata pairs", metadata.len(), PAIRS_MAX)?;
    json(metadata)
}

fn json(value: &impl Serialize) -> Result<String, StoreError> {
    let text = serde_json::to_string(value)
        .map_err(|error| StoreError::io("cannot write JSON", error.into()))?;
    StoreError::check_size("the length of the JSON in bytes", text.len(), JSON_BYTES_MAX)?;
    Ok(text)
}

fn shorten(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}
