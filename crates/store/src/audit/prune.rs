//! Removes the oldest records. The chain then begins at an anchor, which records where and when it
//! was cut and how many records were removed. The anchor carries a code, so only a program with the
//! key can have made it.
//!
//! Only records at the beginning of the log are removed. The beginning of an execution stays as
//! long as its end, and with it all records after that beginning. Executions without an end are
//! removed by the age of their beginning. The size of the log is a bound without exceptions: for it
//! the beginning of an execution is removed even if its end stays.

#[cfg(test)]
mod tests;

use std::time::Duration;

use rusqlite::{Connection, named_params, params};

use super::chain::{Anchor, ChainKey, head, stored_anchor, stored_bytes};
use super::packing::{RECORD_BYTES, release_code};
use super::record::each_between;
use super::settings::AuditSettings;
use super::verify::ChainWalk;
use crate::error::Failure;
use crate::{Digest, StoreError, Timestamp};

/// The most records that are removed in one transaction.
const PRUNED_MAX: usize = 1000;

/// The age, the number and the size of the records that are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pruning {
    retention: Option<Duration>,
    records_max: Option<u64>,
    bytes_max: Option<u64>,
}

impl Pruning {
    pub(crate) fn of(settings: &AuditSettings) -> Self {
        let AuditSettings { retention, records_max, bytes_max, .. } = *settings;
        Self { retention, records_max, bytes_max }
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

/// Removes records that are too old, too many or take too much room, up to `PRUNED_MAX`; returns
/// `None` if there are none.
pub(crate) fn prune(
    connection: &Connection,
    key: &ChainKey,
    pruning: Pruning,
    now: Timestamp,
) -> Result<Option<Pruned>, Failure> {
    let anchor = stored_anchor(connection)?;
    let begin = anchor.map_or(0, |(anchor, _)| anchor.seq);
    let up_to = find_end(connection, begin, pruning, now)?
        .max(find_end_by_size(connection, begin, pruning)?);
    if up_to <= begin {
        return Ok(None);
    }
    // Records that were tampered with are evidence, and are not removed.
    let broken = || Failure::from(StoreError::AuditBroken);
    let mut walk = ChainWalk::new(key, anchor, None).map_err(|_| broken())?;
    let mut codes = Vec::new();
    each_between(connection, begin as i64 + 1, up_to as i64, |record, code| {
        codes.extend(code);
        walk.step(&record?).map_err(|_| broken())
    })?;
    let last = walk.last();
    if last.seq != up_to {
        return Err(broken());
    }
    let removed = up_to - begin;
    let before = anchor.map_or(0, |(anchor, _)| anchor.pruned);
    let anchor = Anchor { seq: up_to, hash: last.hash, pruned_at: now, pruned: before + removed };
    let freed = replace(connection, key, &anchor)?;
    forget(connection, freed, &codes)?;
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

/// Returns the number of the last record that must be removed, with all before it, so that the
/// others take no more room than they may. The last record of all stays.
fn find_end_by_size(connection: &Connection, begin: u64, pruning: Pruning) -> Result<u64, Failure> {
    let Some(bytes_max) = pruning.bytes_max else { return Ok(0) };
    let mut excess = stored_bytes(connection)?.saturating_sub(bytes_max);
    if excess == 0 {
        return Ok(0);
    }
    let last = head(connection)?.seq;
    // Code that other records use too is not counted: it is freed with the last of them.
    let statement = "
        SELECT seq, length(CAST(body AS BLOB)) + coalesce((
            SELECT length(packed) FROM audit_code WHERE digest = audit.code AND uses = 1), 0)
        FROM audit WHERE seq > ?1 AND seq < ?2 ORDER BY seq LIMIT ?3";
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query(params![begin as i64, last as i64, PRUNED_MAX as i64])?;
    let mut end = begin;
    while let Some(row) = rows.next()?
        && excess > 0
    {
        end = row.get::<_, i64>(0)?.max(0) as u64;
        excess = excess.saturating_sub(RECORD_BYTES + row.get::<_, i64>(1)?.max(0) as u64);
    }
    Ok(end)
}

/// Removes the records up to an anchor, and stores it; returns how many bytes they took.
fn replace(connection: &Connection, key: &ChainKey, anchor: &Anchor) -> Result<u64, Failure> {
    let statement = "INSERT OR REPLACE INTO audit_anchor (id, seq, hash, pruned_at, pruned, mac) \
                     VALUES (1, ?1, ?2, ?3, ?4, ?5)";
    let Anchor { seq, hash, pruned_at, pruned } = anchor;
    let mac = key.anchor_mac(anchor);
    let mut statement = connection.prepare_cached(statement)?;
    statement.execute(params![*seq as i64, hash, pruned_at, *pruned as i64, mac])?;
    let statement = "SELECT count(*), total(length(CAST(body AS BLOB))) FROM audit WHERE seq <= ?1";
    let (count, bodies): (i64, f64) = connection
        .prepare_cached(statement)?
        .query_row([*seq as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
    connection.prepare_cached("DELETE FROM audit WHERE seq <= ?1")?.execute([*seq as i64])?;
    Ok(count.max(0) as u64 * RECORD_BYTES + bodies as u64)
}

/// Counts removed records and their codes out of the size of the log.
fn forget(connection: &Connection, mut freed: u64, codes: &[Digest]) -> Result<(), Failure> {
    for code in codes {
        freed += release_code(connection, code)?;
    }
    let statement = "UPDATE audit_head SET bytes = max(bytes - ?1, 0) WHERE id = 1";
    connection.prepare_cached(statement)?.execute([freed as i64])?;
    Ok(())
}
