//! Hosts that a person has allowed for all sandboxes of a key.

use rusqlite::{Connection, Row, params};

use super::{ApprovalRecord, Scope, State, Subject};
use crate::audit::{ChainKey, Note, append_note};
use crate::error::Failure;
use crate::{ApprovalId, Tenant, Timestamp};

/// The most grants of one key; beyond that the oldest is forgotten.
const GRANTS_OF_ONE_MAX: usize = 1000;

/// A host that a person has allowed for all sandboxes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGrant {
    pub host: String,
    pub port: u16,
    /// The approval by which it was allowed.
    pub approval: ApprovalId,
    pub created_at: Timestamp,
}

/// Records the grant of an approval whose scope is the key, in the transaction of the decision.
pub(super) fn insert_for(
    connection: &Connection,
    record: &ApprovalRecord,
    now: Timestamp,
) -> Result<(), Failure> {
    let Subject::Network { host, port } = &record.subject else { return Ok(()) };
    if record.state != State::Approved || record.scope != Some(Scope::Key) {
        return Ok(());
    }
    let statement = "INSERT OR REPLACE INTO network_grant \
                     (tenant, host, port, approval, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![record.tenant, host, port, record.id, now];
    connection.prepare_cached(statement)?.execute(values)?;
    let statement = "DELETE FROM network_grant WHERE tenant = ?1 AND (host, port) IN \
                     (SELECT host, port FROM network_grant WHERE tenant = ?1 \
                      ORDER BY created_at DESC, host, port LIMIT -1 OFFSET ?2)";
    let values = params![record.tenant, GRANTS_OF_ONE_MAX as i64];
    connection.prepare_cached(statement)?.execute(values)?;
    Ok(())
}

pub(super) fn list(connection: &Connection, tenant: &Tenant) -> Result<Vec<HostGrant>, Failure> {
    let statement = "SELECT host, port, approval, created_at FROM network_grant \
                     WHERE tenant = ?1 ORDER BY host, port";
    let mut statement = connection.prepare_cached(statement)?;
    let rows = statement.query_map([tenant], grant)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn remove(
    connection: &Connection,
    chain: &ChainKey,
    tenant: &Tenant,
    host: &str,
    port: u16,
    now: Timestamp,
) -> Result<bool, Failure> {
    let statement = "DELETE FROM network_grant WHERE tenant = ?1 AND host = ?2 AND port = ?3";
    if connection.prepare_cached(statement)?.execute(params![tenant, host, port])? == 0 {
        return Ok(false);
    }
    let mut note = Note::new("network_grant_removed").with("connection", &format!("{host}:{port}"));
    note.tenant = Some(tenant.clone());
    append_note(connection, chain, now, &note)?;
    Ok(true)
}

/// Deletes the grants of a key, in the transaction that revokes the key.
pub(crate) fn delete_of(connection: &Connection, tenant: &Tenant) -> Result<(), Failure> {
    let statement = "DELETE FROM network_grant WHERE tenant = ?1";
    connection.prepare_cached(statement)?.execute([tenant])?;
    Ok(())
}

fn grant(row: &Row<'_>) -> rusqlite::Result<HostGrant> {
    Ok(HostGrant {
        host: row.get("host")?,
        port: row.get("port")?,
        approval: row.get("approval")?,
        created_at: row.get("created_at")?,
    })
}
