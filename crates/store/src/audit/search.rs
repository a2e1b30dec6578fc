//! Executions: the record of a beginning joined with that of the end, if there is one.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use rusqlite::{Connection, Row, named_params};
use serde::Serialize;

use super::body::{BeginBody, FinishBody};
use super::packing::{code_of, whole_body};
use crate::error::Failure;
use crate::{Digest, SandboxId, StoreError, Tenant, Timestamp};

/// The outcome of an execution without an end: it is running, or its server died before it ended.
pub const UNFINISHED: &str = "unfinished";

/// The most executions of one search; each may hold the longest code.
pub const SEARCH_MAX: usize = 1000;

/// Codes of which a search knows whether they have its text.
const KNOWN_MAX: usize = 10_000;

/// Which executions a search finds; an empty one finds all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Of this key.
    pub tenant: Option<Tenant>,
    /// In this sandbox.
    pub sandbox: Option<SandboxId>,
    /// With this outcome, which may be [`UNFINISHED`].
    pub outcome: Option<String>,
    /// With this text in the stored code.
    pub text: Option<String>,
    /// Begun at this time or later.
    pub since: Option<Timestamp>,
    /// Begun before this time.
    pub until: Option<Timestamp>,
    /// The most executions; `None` and more than [`SEARCH_MAX`] mean [`SEARCH_MAX`].
    pub limit: Option<usize>,
}

/// One execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Execution {
    /// The number of the record of its beginning.
    pub seq: u64,
    /// Its id.
    pub execution: String,
    /// The key on whose behalf it was executed.
    pub tenant: Option<String>,
    /// The sandbox, if there was one.
    pub sandbox: Option<String>,
    /// When it began.
    pub begun_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The name of its outcome, or [`UNFINISHED`].
    pub outcome: String,
    /// The body of the record of its beginning.
    pub begin: BeginBody,
    /// The body of the record of its end.
    pub finish: Option<FinishBody>,
}

/// It checks `json_valid` first: another program may have changed a body, and `json_extract` would
/// fail on what is not JSON. Code that is stored apart is searched afterwards, by `CodeSearch`.
const STATEMENT: &str = "
    SELECT begun.seq, begun.execution, begun.tenant, begun.sandbox, begun.time,
           ended.time AS ended_time, ended.body AS ended_body, ended.seq AS ended_seq,
           begun.body, begun.code, begun.code_at, packed
    FROM audit AS begun
    LEFT JOIN audit_code ON audit_code.digest = begun.code
    LEFT JOIN audit AS ended ON ended.execution = begun.execution AND ended.kind = 'finish'
    WHERE begun.kind = 'begin'
      AND (:tenant IS NULL OR begun.tenant = :tenant)
      AND (:sandbox IS NULL OR begun.sandbox = :sandbox)
      AND (:since IS NULL OR begun.time >= :since)
      AND (:until IS NULL OR begun.time < :until)
      AND (:outcome IS NULL OR :outcome = CASE
            WHEN ended.body IS NULL THEN :unfinished
            WHEN json_valid(ended.body) THEN json_extract(ended.body, '$.outcome') END)
      AND (:text IS NULL OR begun.code IS NOT NULL OR instr(CASE
            WHEN json_valid(begun.body) THEN json_extract(begun.body, '$.code.text') END, :text) > 0)
    ORDER BY begun.seq DESC";

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
    })?;
    let mut codes = CodeSearch { text: search.text.as_deref(), known: HashMap::new() };
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        if codes.fits(row)? {
            found.push(execution(row)?);
        }
    }
    Ok(found)
}

/// Searches code that is stored apart. Many records may have one code, so the last results are kept.
struct CodeSearch<'text> {
    text: Option<&'text str>,
    known: HashMap<Digest, bool>,
}

impl CodeSearch<'_> {
    fn fits(&mut self, row: &Row<'_>) -> Result<bool, Failure> {
        let (Some(text), Some(code)) = (self.text, row.get::<_, Option<Digest>>("code")?) else {
            return Ok(true);
        };
        if let Some(fits) = self.known.get(&code) {
            return Ok(*fits);
        }
        let packed: Option<Vec<u8>> = row.get("packed")?;
        let code_text = packed.and_then(|packed| code_of(&packed));
        let fits = code_text.is_some_and(|code_text| code_text.contains(text));
        if self.known.len() < KNOWN_MAX {
            self.known.insert(code, fits);
        }
        Ok(fits)
    }
}

fn execution(row: &Row<'_>) -> Result<Execution, Failure> {
    let seq = row.get::<_, i64>(0)?.max(0) as u64;
    let body = whole_body(row).map_err(|_| StoreError::AuditUnreadable { seq })?;
    let begin = parse(&body, seq)?;
    let finish: Option<FinishBody> = match row.get::<_, Option<String>>("ended_body")? {
        Some(body) => Some(parse(&body, row.get::<_, i64>("ended_seq")?.max(0) as u64)?),
        None => None,
    };
    let outcome = finish.as_ref().map_or(UNFINISHED, |finish| &finish.outcome).to_owned();
    Ok(Execution {
        seq,
        execution: row.get(1)?,
        tenant: row.get(2)?,
        sandbox: row.get(3)?,
        begun_at: row.get(4)?,
        finished_at: row.get("ended_time")?,
        outcome,
        begin,
        finish,
    })
}

fn parse<T: serde::de::DeserializeOwned>(body: &str, seq: u64) -> Result<T, StoreError> {
    serde_json::from_str(body).map_err(|_| StoreError::AuditUnreadable { seq })
}
