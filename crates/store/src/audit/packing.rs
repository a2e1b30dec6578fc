//! How the body of a record is stored: long code is taken out of it, compressed, and stored once for
//! each digest, however many records have it.
//!
//! Only the storage is split. What is authenticated, read and exported is the whole body, put
//! together again byte by byte, so a record whose code was changed or is missing does not fit its
//! authentication code.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::{self, Read as _, Write as _};
use std::ops::Range;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};

use super::body::CODE_BYTES_MAX;
use crate::Digest;
use crate::error::Failure;

/// About how many bytes a record takes beside its body: its other columns and its entry in the
/// index. The number is part of step 3 of the schema.
pub(super) const RECORD_BYTES: u64 = 256;

/// The shortest code, as it is in JSON, that is stored apart.
const CODE_BYTES_MIN: usize = 512;

/// The longest code as it is in JSON, where a character takes at most six times its bytes.
const UNPACKED_BYTES_MAX: usize = 6 * CODE_BYTES_MAX;

/// What stands before the code in the body of a beginning. It cannot be inside a text, where each
/// quote has a backslash before it.
const BEFORE_CODE: &str = "\"text\":\"";

/// A body without its code, and the code.
pub(super) struct SplitBody<'body> {
    pub(super) rest: Cow<'body, str>,
    code: Option<CodePart<'body>>,
}

struct CodePart<'body> {
    digest: Digest,
    at: usize,
    text: &'body str,
}

impl<'body> SplitBody<'body> {
    /// Takes long code out of a body.
    pub(super) fn new(body: &'body str) -> Self {
        let long = |range: &Range<usize>| {
            (CODE_BYTES_MIN..=UNPACKED_BYTES_MAX).contains(&(range.end - range.start))
        };
        let Some(range) = find_code(body).filter(long) else {
            return Self { rest: Cow::Borrowed(body), code: None };
        };
        let text = &body[range.clone()];
        let rest = Cow::Owned([&body[..range.start], &body[range.end..]].concat());
        let digest = Digest::of(text.as_bytes());
        Self { rest, code: Some(CodePart { digest, at: range.start, text }) }
    }

    /// Returns the columns `code` and `code_at`.
    pub(super) fn columns(&self) -> (Option<Digest>, Option<i64>) {
        match &self.code {
            Some(code) => (Some(code.digest), Some(code.at as i64)),
            None => (None, None),
        }
    }

    /// Stores the code, or counts one more use of it; returns how many bytes the whole record adds.
    pub(super) fn store_code(&self, connection: &Connection) -> Result<u64, Failure> {
        let own = RECORD_BYTES + self.rest.len() as u64;
        let Some(code) = &self.code else { return Ok(own) };
        let statement = "UPDATE audit_code SET uses = uses + 1 WHERE digest = ?1";
        if connection.prepare_cached(statement)?.execute([code.digest])? > 0 {
            return Ok(own);
        }
        let packed = pack(code.text);
        let statement = "INSERT INTO audit_code (digest, packed, uses) VALUES (?1, ?2, 1)";
        connection.prepare_cached(statement)?.execute(params![code.digest, packed])?;
        Ok(own + packed.len() as u64)
    }
}

/// Counts one use less of a code, and deletes a code that no record uses; returns how many bytes
/// were freed.
pub(super) fn release_code(connection: &Connection, digest: &Digest) -> Result<u64, Failure> {
    let statement = "UPDATE audit_code SET uses = uses - 1 WHERE digest = ?1";
    connection.prepare_cached(statement)?.execute([digest])?;
    let statement = "DELETE FROM audit_code WHERE digest = ?1 AND uses <= 0 \
                     RETURNING length(packed)";
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query([digest])?;
    match rows.next()? {
        Some(row) => Ok(row.get::<_, i64>(0)?.max(0) as u64),
        None => Ok(0),
    }
}

/// Returns the body of a row with the columns `body`, `code_at` and `packed`. Fails if they do not
/// fit together, as another program may have left them.
pub(super) fn whole_body(row: &Row<'_>) -> rusqlite::Result<String> {
    let mut body: String = row.get("body")?;
    let Some(at) = row.get::<_, Option<i64>>("code_at")? else { return Ok(body) };
    let code = unpack(&row.get::<_, Vec<u8>>("packed")?).map_err(misfit)?;
    let at = usize::try_from(at).ok().filter(|at| body.is_char_boundary(*at));
    let at = at.ok_or_else(|| misfit(io::Error::from(io::ErrorKind::InvalidData)))?;
    body.insert_str(at, &code);
    Ok(body)
}

/// Returns the code of a stored text, for a search; `None` if it cannot be read.
pub(super) fn code_of(packed: &[u8]) -> Option<String> {
    let text = unpack(packed).ok()?;
    serde_json::from_str(&format!("\"{text}\"")).ok()
}

fn misfit(error: io::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, Box::new(error))
}

/// Returns where the code is in a body: between its quotes.
fn find_code(body: &str) -> Option<Range<usize>> {
    let start = body.find(BEFORE_CODE)? + BEFORE_CODE.len();
    let mut escaped = false;
    let length = body.as_bytes()[start..].iter().position(|&byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some(start..start + length)
}

fn pack(text: &str) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder
        .write_all(text.as_bytes())
        .and_then(|()| encoder.finish())
        .expect("writing to memory does not fail")
}

/// Decompresses code. Another program may have written it, so it is read up to a bound.
fn unpack(packed: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    let mut bounded = DeflateDecoder::new(packed).take(UNPACKED_BYTES_MAX as u64 + 1);
    bounded.read_to_string(&mut text)?;
    if text.len() > UNPACKED_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(text)
}
