//! Approvals: executions that wait for a person, and what became of each.
//!
//! A decision is one conditional change of one row, with its note in the audit log in the same
//! transaction: of two people who decide at once one comes too late, and is told so.

#[cfg(test)]
mod tests;

use std::str::FromStr;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde_json::Value;

use crate::audit::{Note, append_note};
use crate::error::Failure;
use crate::{
    ApprovalId, Digest, IdError, Read, SandboxId, Store, StoreError, Tenant, Timestamp, Write,
};

/// The most that wait at a time, of everybody and of one key.
pub const PENDING_MAX: usize = 100;
/// The most of one key.
pub const PENDING_OF_ONE_MAX: usize = 20;
/// How many that were decided are kept, the newest.
const DECIDED_MAX: usize = 1000;
/// The longest findings, as JSON.
const FINDINGS_BYTES_MAX: usize = 256 * 1024;
/// The longest reason; more is cut off.
const REASON_CHARS_MAX: usize = 1000;
/// The most that are listed at once.
pub const LIST_MAX: usize = 100;

/// Whether and how it was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nobody has decided.
    Pending,
    /// It may run.
    Approved,
    /// It may not.
    Denied,
    /// Nobody decided in time, which means no.
    Expired,
}

impl State {
    /// Its name in the file and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
        }
    }
}

impl FromStr for State {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let states = [Self::Pending, Self::Approved, Self::Denied, Self::Expired];
        let found = states.into_iter().find(|state| state.name() == text);
        found.ok_or_else(|| IdError::new("state (pending, approved, denied, expired)", text))
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

/// Something that is to wait for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct NewApproval {
    /// Its id, never used before.
    pub id: ApprovalId,
    /// Who asked.
    pub tenant: Tenant,
    /// In which sandbox it is to run.
    pub sandbox: SandboxId,
    /// Which cell of it.
    pub cell: String,
    /// The policy that asks.
    pub policy: String,
    /// What it found, as JSON.
    pub findings: Value,
    /// The code, all of it.
    pub code: String,
    /// When no decision becomes a no.
    pub expires_at: Timestamp,
}

/// What is known of one.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRecord {
    /// Its id.
    pub id: ApprovalId,
    /// Who asked.
    pub tenant: Tenant,
    /// In which sandbox it was to run.
    pub sandbox: SandboxId,
    /// Which cell of it.
    pub cell: String,
    /// The policy that asked.
    pub policy: String,
    /// What it found, as JSON.
    pub findings: Value,
    /// The code, while it waits.
    pub code: Option<String>,
    /// The digest of the code: what is approved is this and nothing else.
    pub sha256: Digest,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When no decision becomes a no.
    pub expires_at: Timestamp,
    /// Whether and how it was decided.
    pub state: State,
    /// When.
    pub decided_at: Option<Timestamp>,
    /// By whom; nobody where time did.
    pub decided_by: Option<Tenant>,
    /// Why.
    pub reason: Option<String>,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Approve {
        /// Who says so.
        by: Tenant,
        /// Why.
        reason: Option<String>,
    },
    /// It may not.
    Deny {
        /// Who says so.
        by: Tenant,
        /// Why.
        reason: Option<String>,
    },
    /// Nobody decided in time.
    Expire,
}

impl Decision {
    fn state(&self) -> State {
        match self {
            Self::Approve { .. } => State::Approved,
            Self::Deny { .. } => State::Denied,
            Self::Expire => State::Expired,
        }
    }

    fn by_and_reason(self) -> (Option<Tenant>, Option<String>) {
        match self {
            Self::Approve { by, reason } | Self::Deny { by, reason } => (Some(by), reason),
            Self::Expire => (None, None),
        }
    }
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided {
    /// It holds.
    Now(ApprovalRecord),
    /// It came too late: this is what had been decided.
    Before(ApprovalRecord),
    /// There is nothing of this id.
    Unknown,
}

/// What became of a wish to wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// It waits.
    Waits(Box<ApprovalRecord>),
    /// So many wait already.
    TooMany(usize),
}

/// The approvals of a store.
#[derive(Clone, Copy, Debug)]
pub struct Approvals<'store> {
    store: &'store Store,
}

impl<'store> Approvals<'store> {
    pub(crate) fn new(store: &'store Store) -> Self {
        Self { store }
    }

    /// Records that something waits.
    pub fn ask(self, new: NewApproval) -> Write<Asked> {
        let findings = new.findings.to_string();
        if let Err(error) =
            StoreError::check_size("findings in bytes", findings.len(), FINDINGS_BYTES_MAX)
        {
            return Write::refused(error);
        }
        let record = ApprovalRecord {
            sha256: Digest::of(new.code.as_bytes()),
            id: new.id,
            tenant: new.tenant,
            sandbox: new.sandbox,
            cell: new.cell,
            policy: new.policy,
            findings: new.findings,
            code: Some(new.code),
            created_at: self.store.now(),
            expires_at: new.expires_at,
            state: State::Pending,
            decided_at: None,
            decided_by: None,
            reason: None,
        };
        self.store.write_chained(
            move |connection, chain| {
                if let Some(count) = too_many(connection, &record.tenant)? {
                    return Ok(Asked::TooMany(count));
                }
                insert(connection, &record, &findings)?;
                forget_decided(connection)?;
                append_note(connection, chain, record.created_at, &note("asked", &record))?;
                Ok(Asked::Waits(Box::new(record)))
            },
            || (),
        )
    }

    /// Decides about one that waits. An approval after the time is a no: time was first.
    pub fn decide(self, id: &ApprovalId, decision: Decision) -> Write<Decided> {
        let (id, now) = (id.clone(), self.store.now());
        self.store.write_chained(
            move |connection, chain| {
                let Some(before) = get(connection, &id)? else { return Ok(Decided::Unknown) };
                if before.state != State::Pending {
                    return Ok(Decided::Before(before));
                }
                let late = before.expires_at <= now && matches!(decision, Decision::Approve { .. });
                let decision = if late { Decision::Expire } else { decision };
                let record = change(connection, &id, decision, now)?;
                append_note(connection, chain, now, &note(record.state.name(), &record))?;
                Ok(if late { Decided::Before(record) } else { Decided::Now(record) })
            },
            || (),
        )
    }

    /// One of them.
    pub fn get(self, id: &ApprovalId) -> Read<Option<ApprovalRecord>> {
        let id = id.clone();
        self.store.read(move |connection| get(connection, &id))
    }

    /// The newest, at most [`LIST_MAX`]: all or only those in one state, of all or of one key.
    pub fn list(self, state: Option<State>, tenant: Option<&Tenant>) -> Read<Vec<ApprovalRecord>> {
        let tenant = tenant.cloned();
        self.store.read(move |connection| {
            let statement = format!(
                "SELECT {COLUMNS} FROM approval WHERE (?1 IS NULL OR state = ?1) \
                 AND (?2 IS NULL OR tenant = ?2) ORDER BY created_at DESC, id LIMIT {LIST_MAX}"
            );
            let mut statement = connection.prepare_cached(&statement)?;
            let rows = statement.query_map(params![state, tenant], record)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Those whose time is up.
    pub fn overdue(self) -> Read<Vec<ApprovalId>> {
        let now = self.store.now();
        self.store.read(move |connection| {
            let statement =
                "SELECT id FROM approval WHERE state = 'pending' AND expires_at <= ?1 LIMIT 100";
            let mut statement = connection.prepare_cached(statement)?;
            let rows = statement.query_map([now], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }
}

/// What the audit log says of it.
fn note(what: &str, record: &ApprovalRecord) -> Note {
    let mut note = Note::new(&format!("approval_{what}"))
        .with("approval", record.id.as_str())
        .with("cell", &record.cell)
        .with("policy", &record.policy)
        .with("sha256", &record.sha256.to_string());
    note.tenant = Some(record.tenant.clone());
    note.sandbox = Some(record.sandbox.clone());
    if let Some(by) = &record.decided_by {
        note = note.with("by", by.as_str());
    }
    if let Some(reason) = &record.reason {
        note = note.with("reason", reason);
    }
    note
}

const COLUMNS: &str = "id, tenant, sandbox, cell, policy, findings, code, sha256, created_at, \
                       expires_at, state, decided_at, decided_by, reason";

fn too_many(connection: &Connection, tenant: &Tenant) -> Result<Option<usize>, Failure> {
    let statement = "SELECT count(*), count(*) FILTER (WHERE tenant = ?1) FROM approval \
                     WHERE state = 'pending'";
    let counts = connection
        .prepare_cached(statement)?
        .query_row([tenant], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let (all, own) = (counts.0 as usize, counts.1 as usize);
    Ok(match (all >= PENDING_MAX, own >= PENDING_OF_ONE_MAX) {
        (true, _) => Some(all),
        (false, true) => Some(own),
        (false, false) => None,
    })
}

fn insert(connection: &Connection, record: &ApprovalRecord, findings: &str) -> Result<(), Failure> {
    let statement = format!(
        "INSERT INTO approval ({COLUMNS}) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, NULL, NULL, NULL)"
    );
    let ApprovalRecord { id, tenant, sandbox, cell, policy, code, sha256, .. } = record;
    let ApprovalRecord { created_at, expires_at, state, .. } = record;
    let inserted = connection
        .prepare_cached(&statement)?
        .execute(params![
            id, tenant, sandbox, cell, policy, findings, code, sha256, created_at, expires_at,
            state
        ])
        .map_err(Failure::from);
    if inserted.as_ref().is_err_and(Failure::is_conflict) {
        return Err(StoreError::Duplicate { id: id.to_string() }.into());
    }
    inserted.map(drop)
}

fn change(
    connection: &Connection,
    id: &ApprovalId,
    decision: Decision,
    now: Timestamp,
) -> Result<ApprovalRecord, Failure> {
    let state = decision.state();
    let (by, reason) = decision.by_and_reason();
    let reason = reason.map(|reason| reason.chars().take(REASON_CHARS_MAX).collect::<String>());
    let statement = format!(
        "UPDATE approval SET state = ?2, decided_at = ?3, decided_by = ?4, reason = ?5, \
         code = NULL WHERE id = ?1 AND state = 'pending' RETURNING {COLUMNS}"
    );
    let mut statement = connection.prepare_cached(&statement)?;
    Ok(statement.query_row(params![id, state, now, by, reason], record)?)
}

fn forget_decided(connection: &Connection) -> Result<(), Failure> {
    let statement = "DELETE FROM approval WHERE id IN (SELECT id FROM approval \
                     WHERE state <> 'pending' ORDER BY created_at DESC, id LIMIT -1 OFFSET ?1)";
    connection.prepare_cached(statement)?.execute([DECIDED_MAX as i64])?;
    Ok(())
}

fn get(connection: &Connection, id: &ApprovalId) -> Result<Option<ApprovalRecord>, Failure> {
    let statement = format!("SELECT {COLUMNS} FROM approval WHERE id = ?1");
    Ok(connection.prepare_cached(&statement)?.query_row([id], record).optional()?)
}

fn record(row: &Row<'_>) -> rusqlite::Result<ApprovalRecord> {
    let findings: String = row.get("findings")?;
    Ok(ApprovalRecord {
        id: row.get("id")?,
        tenant: row.get("tenant")?,
        sandbox: row.get("sandbox")?,
        cell: row.get("cell")?,
        policy: row.get("policy")?,
        // The file may have been changed by others; what is no JSON is shown as nothing.
        findings: serde_json::from_str(&findings).unwrap_or(Value::Null),
        code: row.get("code")?,
        sha256: row.get("sha256")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        state: row.get("state")?,
        decided_at: row.get("decided_at")?,
        decided_by: row.get("decided_by")?,
        reason: row.get("reason")?,
    })
}
