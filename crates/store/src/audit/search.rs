//! Executions: the record of a beginning joined with that of the end, if there is one.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Row, named_params};
use serde::Serialize;

use super::body::{BeginBody, FinishBody};
use super::packing::{RECORD_BYTES, code_of, whole_body};
use crate::error::Failure;
use crate::{Digest, SandboxId, StoreError, Tenant, Timestamp};

/// The outcome of an execution without an end: it is running, or its server died before it ended.
pub const UNFINISHED: &str = "unfinished";

/// The most executions of one search; each may hold the longest code.
pub const SEARCH_MAX: usize = 1000;

/// The most records that one step of a search looks at. A step is one read: between two of them others have their turn,
/// and the write-ahead log can be emptied.
const STEP_RECORDS: i64 = 10_000;

/// How long one step of a search takes, but for the record it is at.
const STEP_TIME: Duration = Duration::from_millis(50);

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

/// What a search found.
#[derive(Debug, Default)]
pub struct Found {
    /// The executions, newest first.
    pub executions: Vec<Execution>,
    /// About how many bytes they take.
    pub bytes: u64,
    /// Whether older executions were left out because these take as many bytes as they may.
    pub is_cut: bool,
}

/// How far a search has come.
#[derive(Debug, Default)]
pub(super) struct SearchState {
    pub(super) found: Found,
    /// The number of the record above the next one to look at; `None` at the beginning.
    before: Option<i64>,
    pub(super) is_over: bool,
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
    WHERE begun.kind = 'begin' AND begun.seq < :before AND begun.seq >= :least
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

/// Finds executions in one read, however many bytes they take.
pub(super) fn search(connection: &Connection, search: &Search) -> Result<Vec<Execution>, Failure> {
    let mut found = Found::default();
    let range = Range { before: i64::MAX, least: 0 };
    scan(connection, search, range, &mut found, |_| false)?;
    Ok(found.executions)
}

/// Goes on with a search for a short time, until it has found `bytes_max` bytes.
pub(super) fn step(
    connection: &Connection,
    search: &Search,
    bytes_max: u64,
    mut state: SearchState,
) -> Result<SearchState, Failure> {
    let bounds = "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM audit";
    let (first, last) = connection
        .prepare_cached(bounds)?
        .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let before = state.before.unwrap_or(last.saturating_add(1));
    let range = Range { before, least: before.saturating_sub(STEP_RECORDS) };
    let started = Instant::now();
    let is_enough = |found: &Found| found.bytes >= bytes_max || started.elapsed() >= STEP_TIME;
    let stopped = scan(connection, search, range, &mut state.found, is_enough)?;
    let next = stopped.unwrap_or(range.least);
    let is_full = state.found.executions.len() >= limit(search);
    let is_at_end = next <= first;
    state.found.is_cut = state.found.bytes >= bytes_max && !is_full && !is_at_end;
    state.is_over = is_full || is_at_end || state.found.is_cut;
    state.before = Some(next);
    Ok(state)
}

fn limit(search: &Search) -> usize {
    search.limit.unwrap_or(SEARCH_MAX).min(SEARCH_MAX)
}

/// The records that are looked at: from `least` to the one below `before`.
#[derive(Clone, Copy)]
struct Range {
    before: i64,
    least: i64,
}

/// Looks at records, newest first, until `is_enough`. Returns the number of the last one if it stopped early.
fn scan(
    connection: &Connection,
    search: &Search,
    range: Range,
    found: &mut Found,
    is_enough: impl Fn(&Found) -> bool,
) -> Result<Option<i64>, Failure> {
    let mut statement = connection.prepare_cached(STATEMENT)?;
    let mut rows = statement.query(named_params! {
        ":before": range.before,
        ":least": range.least,
        ":tenant": search.tenant,
        ":sandbox": search.sandbox,
        ":since": search.since,
        ":until": search.until,
        ":outcome": search.outcome,
        ":unfinished": UNFINISHED,
        ":text": search.text,
    })?;
    let mut codes = CodeSearch { text: search.text.as_deref(), known: HashMap::new() };
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        if codes.fits(row)? {
            let (execution, bytes) = execution(row)?;
            found.executions.push(execution);
            found.bytes += bytes;
        }
        if found.executions.len() >= limit(search) || is_enough(found) {
            return Ok(Some(seq));
        }
    }
    Ok(None)
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

/// Returns an execution, and about how many bytes it takes.
fn execution(row: &Row<'_>) -> Result<(Execution, u64), Failure> {
    let seq = row.get::<_, i64>(0)?.max(0) as u64;
    let body = whole_body(row).map_err(|_| StoreError::AuditUnreadable { seq })?;
    let begin = parse(&body, seq)?;
    let mut bytes = 2 * RECORD_BYTES + body.len() as u64;
    let finish: Option<FinishBody> = match row.get::<_, Option<String>>("ended_body")? {
        Some(body) => {
            bytes += body.len() as u64;
            Some(parse(&body, row.get::<_, i64>("ended_seq")?.max(0) as u64)?)
        }
        None => None,
    };
    let outcome = finish.as_ref().map_or(UNFINISHED, |finish| &finish.outcome).to_owned();
    let execution = Execution {
        seq,
        execution: row.get(1)?,
        tenant: row.get(2)?,
        sandbox: row.get(3)?,
        begun_at: row.get(4)?,
        finished_at: row.get("ended_time")?,
        outcome,
        begin,
        finish,
    };
    Ok((execution, bytes))
}

fn parse<T: serde::de::DeserializeOwned>(body: &str, seq: u64) -> Result<T, StoreError> {
    serde_json::from_str(body).map_err(|_| StoreError::AuditUnreadable { seq })
}
