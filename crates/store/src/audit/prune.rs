//! Forgets the oldest records. The chain then begins at an anchor that says where it was cut, by
//! whom it can only have been cut (it carries a code), when, and how much was removed.
//!
//! Only a beginning of the log is removed, and an execution whose end is young enough to stay keeps
//! its beginning, and with that everything after it. Executions that never ended go when their
//! beginning is old.

#[cfg(test)]
mod tests;

use std::time::Duration;

use rusqlite::{Connection, named_params, params};

use super::chain::{Anchor, ChainKey, head, stored_anchor};
use super::record::after;
use super::settings::AuditSettings;
use super::verify::Walk;
use crate::error::Failure;
use crate::{StoreError, Timestamp};

/// Records that are removed in one transaction.
const PRUNED_MAX: usize = 1000;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pruning {
    retention: Option<Duration>,
    records_max: Option<u64>,
}

impl Pruning {
    pub(crate) fn of(settings: &AuditSettings) -> Self {
        Self { retention: settings.retention, records_max: settings.records_max }
    }
}

/// What was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// How many records.
    pub records: u64,
    /// The number of the last one.
    pub up_to: u64,
}

/// Removes some of what should go; nothing if nothing should.
pub(crate) fn prune(
    connection: &Connection,
    key: &ChainKey,
    pruning: Pruning,
    now: Timestamp,
) -> Result<Option<Pruned>, Failure> {
    let anchor = stored_anchor(connection)?;
    let begin = anchor.map_or(0, |(anchor, _)| anchor.seq);
    let up_to = find_end(connection, begin, pruning, now)?;
    if up_to <= begin {
        return Ok(None);
    }
    // What is not as it was written is evidence and stays.
    let mut walk = Walk::new(key, anchor, None).map_err(|_| StoreError::AuditBroken)?;
    let records = after(connection, begin, (up_to - begin) as usize)?;
    let hash = records.last().ok_or(StoreError::AuditBroken)?.hash;
    for record in &records {
        walk.step(record).map_err(|_| StoreError::AuditBroken)?;
    }
    let removed = records.len() as u64;
    let before = anchor.map_or(0, |(anchor, _)| anchor.pruned);
    let anchor = Anchor { seq: up_to, hash, pruned_at: now, pruned: before + removed };
    replace(connection, key, &anchor)?;
    Ok(Some(Pruned { records: removed, up_to }))
}

/// The last record that may go with all before it.
fn find_end(
    connection: &Connection,
    begin: u64,
    pruning: Pruning,
    now: Timestamp,
) -> Result<u64, Failure> {
    let last = head(connection)?.seq;
    let young = pruning.retention.map_or(i64::MIN, |kept| now.before(kept).as_micros());
    let excess = pruning.records_max.map_or(0, |max| last.saturating_sub(max));
    let statement = "
        SELECT min(seq) FROM (
            SELECT seq, time, kind, execution FROM audit
            WHERE seq > :begin ORDER BY seq LIMIT :count
        ) AS old
        WHERE (old.time >= :young AND old.seq > :excess)
           OR (old.kind = 'begin' AND EXISTS (
                SELECT 1 FROM audit AS end
                WHERE end.execution = old.execution AND end.kind = 'finish'
                  AND end.time >= :young AND end.seq > :excess))";
    let first_kept: Option<i64> = connection.prepare_cached(statement)?.query_row(
        named_params! {
            ":begin": begin as i64,
            ":count": PRUNED_MAX as i64,
            ":young": young,
            ":excess": excess as i64,
        },
        |row| row.get(0),
    )?;
    Ok(match first_kept {
        Some(first_kept) => (first_kept as u64).saturating_sub(1),
        None => last.min(begin + PRUNED_MAX as u64),
    })
}

fn replace(connection: &Connection, key: &ChainKey, anchor: &Anchor) -> Result<(), Failure> {
    let statement = "INSERT OR REPLACE INTO audit_anchor (id, seq, hash, pruned_at, pruned, mac) \
                     VALUES (1, ?1, ?2, ?3, ?4, ?5)";
    let Anchor { seq, hash, pruned_at, pruned } = anchor;
    let mac = key.anchor_mac(anchor);
    let mut statement = connection.prepare_cached(statement)?;
    statement.execute(params![*seq as i64, hash, pruned_at, *pruned as i64, mac])?;
    connection.prepare_cached("DELETE FROM audit WHERE seq <= ?1")?.execute([*seq as i64])?;
    Ok(())
}
