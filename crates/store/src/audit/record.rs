//! Records as they are in the table.

use std::str::FromStr;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};

use super::packing::whole_body;
use crate::error::Failure;
use crate::{Digest, IdError, Timestamp};

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// An execution begins.
    Begin,
    /// An execution has ended.
    Finish,
    /// An event that is not an execution.
    Note,
}

impl RecordKind {
    /// Returns its name in the database and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Finish => "finish",
            Self::Note => "note",
        }
    }
}

impl FromStr for RecordKind {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let kinds = [Self::Begin, Self::Finish, Self::Note];
        let found = kinds.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| IdError::new("kind of record", text))
    }
}

impl ToSql for RecordKind {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.name().into())
    }
}

impl FromSql for RecordKind {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(FromSqlError::other)
    }
}

/// A record. Its texts are as they are in the file, which another program may have changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its number: 1, 2, 3, without gaps.
    pub seq: u64,
    /// When it was written.
    pub time: Timestamp,
    /// Its kind.
    pub kind: RecordKind,
    /// The execution, if it is about one.
    pub execution: Option<String>,
    /// The key on whose behalf it happened.
    pub tenant: Option<String>,
    /// The sandbox, if there is one.
    pub sandbox: Option<String>,
    /// The body as JSON: exactly the bytes that are authenticated.
    pub body: String,
    /// The code of the record before it.
    pub previous: Digest,
    /// Its own code.
    pub hash: Digest,
}

const COLUMNS: &str = "seq, time, kind, execution, tenant, sandbox, body, previous, hash, code, \
                       code_at, packed";

/// The records, each with its code if that is stored apart.
const RECORDS: &str = "audit LEFT JOIN audit_code ON audit_code.digest = audit.code";

/// Returns the last records, oldest first.
pub(super) fn tail(connection: &Connection, count: usize) -> Result<Vec<Record>, Failure> {
    let statement = format!(
        "SELECT * FROM (SELECT {COLUMNS} FROM {RECORDS} ORDER BY seq DESC LIMIT ?1) ORDER BY seq"
    );
    let mut statement = connection.prepare_cached(&statement)?;
    let rows = statement.query_map([count as i64], record)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the records after a number, oldest first.
pub(super) fn after(
    connection: &Connection,
    seq: u64,
    count: usize,
) -> Result<Vec<Record>, Failure> {
    let statement = format!("SELECT {COLUMNS} FROM {RECORDS} WHERE seq > ?1 ORDER BY seq LIMIT ?2");
    let mut statement = connection.prepare_cached(&statement)?;
    let rows = statement.query_map(params![seq as i64, count as i64], record)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Calls `visit` for every record in order, with one in memory at a time. A row that is not a valid
/// record is passed as an error.
pub(super) fn each<E: From<Failure>>(
    connection: &Connection,
    mut visit: impl FnMut(Result<Record, rusqlite::Error>) -> Result<(), E>,
) -> Result<(), E> {
    each_between(connection, i64::MIN, i64::MAX, |record, _| visit(record))
}

/// Calls `visit` for every record from `begin` to `end`, in order, with one in memory at a
/// time, and with the digest of its code if that is stored apart.
pub(super) fn each_between<E: From<Failure>>(
    connection: &Connection,
    begin: i64,
    end: i64,
    mut visit: impl FnMut(Result<Record, rusqlite::Error>, Option<Digest>) -> Result<(), E>,
) -> Result<(), E> {
    let statement =
        format!("SELECT {COLUMNS} FROM {RECORDS} WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq");
    let mut statement = connection.prepare_cached(&statement).map_err(Failure::from)?;
    let mut rows = statement.query([begin, end]).map_err(Failure::from)?;
    while let Some(row) = rows.next().map_err(Failure::from)? {
        visit(record(row), row.get("code").unwrap_or_default())?;
    }
    Ok(())
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        seq: row.get::<_, i64>("seq")?.max(0) as u64,
        time: row.get("time")?,
        kind: row.get("kind")?,
        execution: row.get("execution")?,
        tenant: row.get("tenant")?,
        sandbox: row.get("sandbox")?,
        body: whole_body(row)?,
        previous: row.get("previous")?,
        hash: row.get("hash")?,
    })
}
