//! Executions as one thing: a beginning and, if there is one, an end.

#[cfg(test)]
mod tests;

use rusqlite::{Connection, Row, named_params};
use serde::Serialize;

use super::body::{BeginBody, FinishBody};
use crate::error::Failure;
use crate::{SandboxId, StoreError, Tenant, Timestamp};

/// The outcome of an execution that was begun and has no end: it is running, or nobody was left to
/// say how it ended.
pub const UNFINISHED: &str = "unfinished";

/// The most executions that are found at once; each may hold the longest code.
pub const SEARCH_MAX: usize = 1000;

/// Which executions are wanted; an empty one wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// For whom.
    pub tenant: Option<Tenant>,
    /// In which sandbox.
    pub sandbox: Option<SandboxId>,
    /// With this outcome, which may be [`UNFINISHED`].
    pub outcome: Option<String>,
    /// With this text in what was kept of the code.
    pub text: Option<String>,
    /// Begun at this moment or later.
    pub since: Option<Timestamp>,
    /// Begun before this moment.
    pub until: Option<Timestamp>,
    /// How many at most; never more than [`SEARCH_MAX`], which is meant if nothing is said.
    pub limit: Option<usize>,
}

/// One execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Execution {
    /// The number of the record of its beginning.
    pub seq: u64,
    /// Its id.
    pub execution: String,
    /// For whom.
    pub tenant: Option<String>,
    /// In which sandbox.
    pub sandbox: Option<String>,
    /// When it began.
    pub begun_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// How it ended, or [`UNFINISHED`].
    pub outcome: String,
    /// What was recorded when it began.
    pub begin: BeginBody,
    /// What was recorded when it ended.
    pub finish: Option<FinishBody>,
}

/// A body may have been changed into something that is no JSON, which SQLite would refuse to look at.
const STATEMENT: &str = "
    SELECT begun.seq, begun.execution, begun.tenant, begun.sandbox, begun.time, begun.body,
           ended.time, ended.body, ended.seq
    FROM audit AS begun
    LEFT JOIN audit AS ended ON ended.execution = begun.execution AND ended.kind = 'finish'
    WHERE begun.kind = 'begin'
      AND (:tenant IS NULL OR begun.tenant = :tenant)
      AND (:sandbox IS NULL OR begun.sandbox = :sandbox)
      AND (:since IS NULL OR begun.time >= :since)
      AND (:until IS NULL OR begun.time < :until)
      AND (:outcome IS NULL OR :outcome = CASE
            WHEN ended.body IS NULL THEN :unfinished
            WHEN json_valid(ended.body) THEN json_extract(ended.body, '$.outcome') END)
      AND (:text IS NULL OR instr(CASE
            WHEN json_valid(begun.body) THEN json_extract(begun.body, '$.code.text') END, :text) > 0)
    ORDER BY begun.seq DESC LIMIT :limit";

pub(super) fn search(connection: &Connection, search: &Search) -> Result<Vec<Execution>, Failure> {
    let limit = search.limit.unwrap_or(SEARCH_MAX).min(SEARCH_MAX);
    let mut statement = connection.prepare_cached(STATEMENT)?;
    let mut rows = statement.query(named_params! {
        ":tenant": search.tenant,
        ":sandbox": search.sandbox,
        ":since": search.since,
        ":until": search.until,
        ":outcome": search.outcome,
        ":unfinished": UNFINISHED,
        ":text": search.text,
        ":limit": limit as i64,
    })?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(execution(row)?);
    }
    Ok(found)
}

fn execution(row: &Row<'_>) -> Result<Execution, Failure> {
    let seq = row.get::<_, i64>(0)?.max(0) as u64;
    let begin = parse(&row.get::<_, String>(5)?, seq)?;
    let finish: Option<FinishBody> = match row.get::<_, Option<String>>(7)? {
        Some(body) => Some(parse(&body, row.get::<_, i64>(8)?.max(0) as u64)?),
        None => None,
    };
    let outcome = finish.as_ref().map_or(UNFINISHED, |finish| &finish.outcome).to_owned();
    Ok(Execution {
        seq,
        execution: row.get(1)?,
        tenant: row.get(2)?,
        sandbox: row.get(3)?,
        begun_at: row.get(4)?,
        finished_at: row.get(6)?,
        outcome,
        begin,
        finish,
    })
}

fn parse<T: serde::de::DeserializeOwned>(body: &str, seq: u64) -> Result<T, StoreError> {
    serde_json::from_str(body).map_err(|_| StoreError::AuditUnreadable { seq })
}
