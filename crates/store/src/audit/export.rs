//! The log as a file of JSON lines that can be checked without the database.
//!
//! The first line is of kind `log` and has the anchor of what was pruned. One line for each record
//! follows. The last line is of kind `head`; a file without it has been cut off.

#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Read};
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::chain::{Anchor, ChainKey, Head, stored_anchor, stored_check, stored_head};
use super::record::{Record, each};
use super::verify::{ChainWalk, Fault, NotedHead, Summary, Verdict};
use crate::error::Failure;
use crate::file::StorePaths;
use crate::{Digest, Store, StoreError, Timestamp};

/// The longest line that is read. A record with the longest code is shorter.
const LINE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The version of the format.
const VERSION: u32 = 1;

/// Why a log could not be exported, or an exported log could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file could not be read or written.
    #[error("cannot read or write the exported log")]
    File(#[source] io::Error),
    /// A line does not have the format of an exported log.
    #[error("line {line} is not part of an exported audit log")]
    Line {
        /// Its number.
        line: u64,
    },
}

/// The first or the last line. Unknown fields are errors, since they would not be authenticated.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum Frame {
    /// The first line.
    Log { version: u32, key_check: Digest, anchor: Option<AnchorLine> },
    /// The last line.
    Head { seq: u64, hash: Digest, mac: Digest },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnchorLine {
    seq: u64,
    hash: Digest,
    pruned_at: Timestamp,
    pruned: u64,
    mac: Digest,
}

impl From<(Anchor, Digest)> for AnchorLine {
    fn from((anchor, mac): (Anchor, Digest)) -> Self {
        let Anchor { seq, hash, pruned_at, pruned } = anchor;
        Self { seq, hash, pruned_at, pruned, mac }
    }
}

impl From<AnchorLine> for (Anchor, Digest) {
    fn from(line: AnchorLine) -> Self {
        let AnchorLine { seq, hash, pruned_at, pruned, mac } = line;
        (Anchor { seq, hash, pruned_at, pruned }, mac)
    }
}

/// Any line.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Frame(Frame),
    Record(Record),
}

/// An error of the database, or of the file that is written.
enum ExportFailure {
    Store(Failure),
    File(io::Error),
}

impl From<Failure> for ExportFailure {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}

impl From<io::Error> for ExportFailure {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

pub(super) fn export(store: &Store, to: &mut dyn io::Write) -> Result<Head, ExportError> {
    store.flush();
    let exported = store.readers().read(|connection| match write_all(connection, to) {
        Ok(head) => Ok(Ok(head)),
        Err(ExportFailure::File(error)) => Ok(Err(error)),
        Err(ExportFailure::Store(failure)) => Err(failure),
    })?;
    exported.map_err(ExportError::File)
}

fn write_all(connection: &Connection, to: &mut dyn io::Write) -> Result<Head, ExportFailure> {
    let broken = || Failure::from(StoreError::AuditBroken);
    let (head, mac) = stored_head(connection)?.ok_or_else(broken)?;
    let key_check = stored_check(connection)?.ok_or_else(broken)?;
    let anchor = stored_anchor(connection)?.map(AnchorLine::from);
    write_line(to, &Frame::Log { version: VERSION, key_check, anchor })?;
    each(connection, |record| {
        let record = record.map_err(Failure::from)?;
        write_line(to, &record).map_err(ExportFailure::from)
    })?;
    write_line(to, &Frame::Head { seq: head.seq, hash: head.hash, mac })?;
    to.flush()?;
    Ok(head)
}

fn write_line(to: &mut dyn io::Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, line)?;
    to.write_all(b"\n")
}

/// Checks an exported log with the key of a database.
pub fn verify_export(
    database: &Path,
    lines: &mut dyn BufRead,
    noted: Option<NotedHead>,
) -> Result<Verdict, ExportError> {
    let paths = StorePaths { database: database.to_owned(), patience: Duration::ZERO };
    let key = ChainKey::load(&paths)?;
    match walk_lines(&key, &mut Lines { from: lines, number: 0 }, noted) {
        Ok(summary) => Ok(Verdict::Whole(summary)),
        Err(CheckStop::Fault(fault)) => Ok(Verdict::Broken(fault)),
        Err(CheckStop::Error(error)) => Err(error),
    }
}

/// Why the check of an exported log ended early: a fault of the log, or an error.
enum CheckStop {
    Fault(Fault),
    Error(ExportError),
}

impl From<Fault> for CheckStop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<ExportError> for CheckStop {
    fn from(error: ExportError) -> Self {
        Self::Error(error)
    }
}

fn walk_lines(
    key: &ChainKey,
    lines: &mut Lines<'_>,
    noted: Option<NotedHead>,
) -> Result<Summary, CheckStop> {
    let Some(Line::Frame(Frame::Log { version: VERSION, key_check, anchor })) = lines.next()?
    else {
        return Err(lines.malformed().into());
    };
    if key_check != key.check() {
        return Err(Fault::WrongKey.into());
    }
    let mut walk = ChainWalk::new(key, anchor.map(Into::into), noted)?;
    loop {
        match lines.next()? {
            Some(Line::Record(record)) => walk.step(&record)?,
            Some(Line::Frame(Frame::Head { seq, hash, mac })) => {
                let summary = walk.end(Head { seq, hash }, mac)?;
                return match lines.next()? {
                    None => Ok(summary),
                    Some(_) => Err(lines.malformed().into()),
                };
            }
            Some(Line::Frame(Frame::Log { .. })) => return Err(lines.malformed().into()),
            None => return Err(Fault::HeadMissing.into()),
        }
    }
}

/// A file read line by line.
struct Lines<'file> {
    from: &'file mut dyn BufRead,
    number: u64,
}

impl Lines<'_> {
    /// Returns the next line; `None` at the end.
    fn next(&mut self) -> Result<Option<Line>, ExportError> {
        self.number += 1;
        let mut bytes = Vec::new();
        let mut bounded = (&mut *self.from).take(LINE_BYTES_MAX);
        bounded.read_until(b'\n', &mut bytes).map_err(ExportError::File)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|_| self.malformed())
    }

    /// Returns the error for the current line.
    fn malformed(&self) -> ExportError {
        ExportError::Line { line: self.number }
    }
}
