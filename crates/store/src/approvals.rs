//! Approvals: executions and connections that wait for a person, and the decision about each.
//!
//! A decision is one conditional update of one row, with its note in the audit log in the same
//! transaction. If two people decide at once, the second one gets [`Decided::Before`].

pub(crate) mod grants;
mod subject;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde_json::Value;

use crate::audit::{ChainKey, Note, append_note};
use crate::error::Failure;
use crate::keys::is_revoked;
use crate::{
    ApprovalId, Digest, IdError, Read, SandboxId, Store, StoreError, Tenant, Timestamp, Write,
};

/// The most pending approvals of all keys together.
pub const PENDING_MAX: usize = 100;
/// The most pending approvals of one key.
pub const PENDING_OF_ONE_MAX: usize = 20;
/// How many decided approvals are kept, the newest.
const DECIDED_MAX: usize = 1000;
/// The longest findings, as JSON.
const FINDINGS_BYTES_MAX: usize = 256 * 1024;
/// The longest reason; more is cut off.
const REASON_CHARS_MAX: usize = 1000;
/// The most approvals of one list.
pub const LIST_MAX: usize = 100;

/// The state of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No decision yet.
    Pending,
    /// The execution may run.
    Approved,
    /// The execution may not run.
    Denied,
    /// No decision in time; the execution may not run.
    Expired,
}

impl State {
    /// Returns its name in the database and in JSON.
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

pub use grants::HostGrant;
pub use subject::{Scope, Subject};

/// An execution or a connection that is to wait for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct NewApproval {
    /// A new id.
    pub id: ApprovalId,
    /// The owner of the sandbox.
    pub tenant: Tenant,
    /// What waits: code, or a connection.
    pub subject: Subject,
    /// The sandbox in which it is to run.
    pub sandbox: SandboxId,
    /// The cell; for a connection the cells that ran when it was made.
    pub cell: String,
    /// The policy that requires a decision.
    pub policy: String,
    /// The findings of the policy, as JSON.
    pub findings: Value,
    /// All of the code; for a connection [`Subject::text`].
    pub code: String,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// An approval as it is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRecord {
    /// Its id.
    pub id: ApprovalId,
    /// The owner of the sandbox.
    pub tenant: Tenant,
    /// What waits: code, or a connection.
    pub subject: Subject,
    /// The sandbox in which it was to run.
    pub sandbox: SandboxId,
    /// The cell; for a connection the cells that ran when it was made.
    pub cell: String,
    /// The policy that required a decision.
    pub policy: String,
    /// The findings of the policy, as JSON.
    pub findings: Value,
    /// The code, while it is pending.
    pub code: Option<String>,
    /// The digest of the code. The decision holds for this code only.
    pub sha256: Digest,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Its state.
    pub state: State,
    /// When it was decided.
    pub decided_at: Option<Timestamp>,
    /// Who decided; `None` if it expired.
    pub decided_by: Option<Tenant>,
    /// The reason that was given.
    pub reason: Option<String>,
    /// How far the approval of a connection reaches.
    pub scope: Option<Scope>,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The execution may run.
    Approve {
        /// Who decided.
        by: Tenant,
        /// The reason.
        reason: Option<String>,
        /// How far it reaches; for a connection only.
        scope: Option<Scope>,
    },
    /// The execution may not run.
    Deny {
        /// Who decided.
        by: Tenant,
        /// The reason.
        reason: Option<String>,
    },
    /// There was no decision in time.
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
            Self::Approve { by, reason, .. } | Self::Deny { by, reason } => (Some(by), reason),
            Self::Expire => (None, None),
        }
    }

    fn scope(&self) -> Option<Scope> {
        match self {
            Self::Approve { scope, .. } => *scope,
            Self::Deny { .. } | Self::Expire => None,
        }
    }
}

/// The result of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided {
    /// The decision holds.
    Now(ApprovalRecord),
    /// It came too late: the approval had been decided, or had expired.
    Before(ApprovalRecord),
    /// There is no approval of this id.
    Unknown,
}

/// The result of [`Approvals::ask`].
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// The execution waits for a decision.
    Waits(Box<ApprovalRecord>),
    /// So many are pending already, of this key or of all.
    TooMany(usize),
    /// The key of the sandbox's owner is revoked.
    Revoked,
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

    /// Records that an execution waits for a decision.
    pub fn ask(self, new: NewApproval) -> Write<Asked> {
        let findings = new.findings.to_string();
        if let Err(error) = StoreError::check_size(
            "the length of the findings in bytes",
            findings.len(),
            FINDINGS_BYTES_MAX,
        ) {
            return Write::refused(error);
        }
        let record = ApprovalRecord {
            sha256: Digest::of(new.code.as_bytes()),
            id: new.id,
            tenant: new.tenant,
            subject: new.subject,
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
            scope: None,
        };
        self.store.write_chained(
            move |connection, chain| {
                if is_revoked(connection, &record.tenant)? {
                    return Ok(Asked::Revoked);
                }
                if let Some(count) = too_many(connection, &record.tenant)? {
                    return Ok(Asked::TooMany(count));
                }
                insert(connection, &record, &findings)?;
                delete_decided(connection)?;
                append_note(connection, chain, record.created_at, &note("asked", &record))?;
                Ok(Asked::Waits(Box::new(record)))
            },
            || (),
        )
    }

    /// Decides about a pending approval. One that should have expired by now, or whose owner's key is
    /// revoked, expires even if it is approved.
    pub fn decide(self, id: &ApprovalId, decision: Decision) -> Write<Decided> {
        let id = id.clone();
        let now = self.store.now();
        self.store.write_chained(
            move |connection, chain| {
                let Some(before) = get(connection, &id)? else { return Ok(Decided::Unknown) };
                if before.state != State::Pending {
                    return Ok(Decided::Before(before));
                }
                let over = before.expires_at <= now || is_revoked(connection, &before.tenant)?;
                let late = over && matches!(decision, Decision::Approve { .. });
                let decision = if late { Decision::Expire } else { decision };
                let record = change(connection, &id, decision, now)?;
                grants::insert_for(connection, &record, now)?;
                append_note(connection, chain, now, &note(record.state.name(), &record))?;
                Ok(if late { Decided::Before(record) } else { Decided::Now(record) })
            },
            || (),
        )
    }

    /// Finds an approval.
    pub fn get(self, id: &ApprovalId) -> Read<Option<ApprovalRecord>> {
        let id = id.clone();
        self.store.read(move |connection| get(connection, &id))
    }

    /// Lists the newest, at most [`LIST_MAX`], optionally only those in one state and of one key.
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

    /// Lists the hosts that people have allowed for all sandboxes of a key.
    pub fn grants(self, tenant: &Tenant) -> Read<Vec<HostGrant>> {
        let tenant = tenant.clone();
        self.store.read(move |connection| grants::list(connection, &tenant))
    }

    /// Takes back what a person has allowed for all sandboxes of a key; returns whether it was there.
    pub fn remove_grant(self, tenant: &Tenant, host: &str, port: u16) -> Write<bool> {
        let (tenant, host) = (tenant.clone(), host.to_owned());
        let now = self.store.now();
        self.store.write_chained(
            move |connection, chain| grants::remove(connection, chain, &tenant, &host, port, now),
            || (),
        )
    }

    /// Lists pending approvals that should have expired by now.
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

/// Has the pending approvals of a key expire, in the transaction that revokes the key.
pub(crate) fn expire_of(
    connection: &Connection,
    chain: &ChainKey,
    tenant: &Tenant,
    now: Timestamp,
) -> Result<(), Failure> {
    let statement = "SELECT id FROM approval WHERE state = 'pending' AND tenant = ?1";
    let mut statement = connection.prepare_cached(statement)?;
    let pending = statement.query_map([tenant], |row| row.get(0))?;
    for id in pending.collect::<rusqlite::Result<Vec<ApprovalId>>>()? {
        let record = change(connection, &id, Decision::Expire, now)?;
        let note = note(record.state.name(), &record).with("reason", "its key was revoked");
        append_note(connection, chain, now, &note)?;
    }
    Ok(())
}

/// Returns the note for the audit log.
fn note(what: &str, record: &ApprovalRecord) -> Note {
    let mut note = Note::new(&format!("approval_{what}"))
        .with("approval", record.id.as_str())
        .with("cell", &record.cell)
        .with("policy", &record.policy)
        .with("sha256", &record.sha256.to_string());
    note.tenant = Some(record.tenant.clone());
    note.sandbox = Some(record.sandbox.clone());
    if let Subject::Network { host, port } = &record.subject {
        note = note.with("connection", &format!("{host}:{port}"));
    }
    if let Some(scope) = record.scope {
        note = note.with("scope", scope.name());
    }
    if let Some(by) = &record.decided_by {
        note = note.with("by", by.as_str());
    }
    if let Some(reason) = &record.reason {
        note = note.with("reason", reason);
    }
    note
}

const COLUMNS: &str = "id, tenant, sandbox, cell, policy, findings, code, sha256, created_at, \
                       expires_at, state, decided_at, decided_by, reason, kind, host, port, scope";

fn too_many(connection: &Connection, tenant: &Tenant) -> Result<Option<usize>, Failure> {
    let statement = "SELECT count(*), count(*) FILTER (WHERE tenant = ?1) FROM approval \
                     WHERE state = 'pending'";
    let counts = connection
        .prepare_cached(statement)?
        .query_row([tenant], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let all = counts.0 as usize;
    let own = counts.1 as usize;
    Ok(match (all >= PENDING_MAX, own >= PENDING_OF_ONE_MAX) {
        (true, _) => Some(all),
        (false, true) => Some(own),
        (false, false) => None,
    })
}

fn insert(connection: &Connection, record: &ApprovalRecord, findings: &str) -> Result<(), Failure> {
    let statement = format!(
        "INSERT INTO approval ({COLUMNS}) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, NULL, NULL, NULL, ?12, ?13, \
         ?14, NULL)"
    );
    let ApprovalRecord { id, tenant, sandbox, cell, policy, code, sha256, .. } = record;
    let ApprovalRecord { created_at, expires_at, state, subject, .. } = record;
    let (kind, host, port) = subject.columns();
    let inserted = connection
        .prepare_cached(&statement)?
        .execute(params![
            id, tenant, sandbox, cell, policy, findings, code, sha256, created_at, expires_at,
            state, kind, host, port
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
    let scope = decision.scope();
    let (by, reason) = decision.by_and_reason();
    let reason = reason.map(|reason| reason.chars().take(REASON_CHARS_MAX).collect::<String>());
    let statement = format!(
        "UPDATE approval SET state = ?2, decided_at = ?3, decided_by = ?4, reason = ?5, \
         scope = ?6, code = NULL WHERE id = ?1 AND state = 'pending' RETURNING {COLUMNS}"
    );
    let mut statement = connection.prepare_cached(&statement)?;
    Ok(statement.query_row(params![id, state, now, by, reason, scope], record)?)
}

/// Deletes the oldest of too many decided approvals.
fn delete_decided(connection: &Connection) -> Result<(), Failure> {
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
        subject: Subject::read(row)?,
        sandbox: row.get("sandbox")?,
        cell: row.get("cell")?,
        policy: row.get("policy")?,
        // Another program may have changed the file; what is not JSON is returned as null.
        findings: serde_json::from_str(&findings).unwrap_or(Value::Null),
        code: row.get("code")?,
        sha256: row.get("sha256")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        state: row.get("state")?,
        decided_at: row.get("decided_at")?,
        decided_by: row.get("decided_by")?,
        reason: row.get("reason")?,
        scope: row.get("scope")?,
    })
}
