//! Removes the oldest records. The chain then begins at an anchor, which records where and when it
//! was cut and how many records were removed. The anchor carries a code, so only a program with the
//! key can have made it.
//!
//! Only records at the beginning of the log are removed. The beginning of an execution stays as
//! long as its end, and with it all records after that beginning. Executions without an end are
//! removed by the age of their beginning.

#[cfg(test)]
mod tests;

use std::time::Duration;

use rusqlite::{Connection, named_params, params};

use super::chain::{Anchor, ChainKey, head, stored_anchor};
use super::record::after;
use super::settings::AuditSettings;
use super::verify::ChainWalk;
use crate::error::Failure;
use crate::{StoreError, Timestamp};

/// The most records that are removed in one transaction.
const PRUNED_MAX: usize = 1000;

/// The age and the number of records that are kept.
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

/// The records that were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// How many.
    pub records: u64,
    /// The number of the last one.
    pub up_to: u64,
}

/// Removes records that are too old or too many, up to `PRUNED_MAX`; returns `None` if there are
/// none.
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
    // Records that were tampered with are evidence, and are not removed.
    let mut walk = ChainWalk::new(key, anchor, None).map_err(|_| StoreError::AuditBroken)?;
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

/// Returns the number of the last record that may be removed with all before it.
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
