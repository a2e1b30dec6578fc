//! The chain: its key, what is authenticated, and how a record is appended.

#[cfg(test)]
mod tests;

use hmac::{Hmac, Mac};
use rusqlite::{Connection, OptionalExtension, params};
use sha2::Sha256;

use super::packing::SplitBody;
use super::record::{Record, RecordKind};
use crate::error::Failure;
use crate::file::StorePaths;
use crate::key_file::{self, KEY_BYTES};
use crate::{Digest, StoreError, Timestamp};

/// The number and the code of the last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its number; 0 if there is none.
    pub seq: u64,
    /// Its code.
    pub hash: Digest,
}

/// Where the chain begins after pruning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The number of the last record that was removed.
    pub seq: u64,
    /// Its code, which the first remaining record has as that of the record before it.
    pub hash: Digest,
    /// When it was removed.
    pub pruned_at: Timestamp,
    /// How many records have been removed in total.
    pub pruned: u64,
}

/// The contents of a record, before it has a number and a code.
pub(super) struct ChainEntry<'text> {
    pub(super) time: Timestamp,
    pub(super) kind: RecordKind,
    pub(super) execution: Option<&'text str>,
    pub(super) tenant: Option<&'text str>,
    pub(super) sandbox: Option<&'text str>,
    pub(super) body: &'text str,
}

/// The key with which records are authenticated.
pub(crate) struct ChainKey(Hmac<Sha256>);

impl std::fmt::Debug for ChainKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ChainKey(****)")
    }
}

impl ChainKey {
    /// Returns the key for a database that is to be written. Creates the key if the log is new.
    pub(crate) fn for_writing(
        connection: &Connection,
        paths: &StorePaths,
    ) -> Result<Self, StoreError> {
        if !has_head(connection).map_err(|failure| paths.explain(failure))? {
            key_file::make(paths, &paths.audit_key())?;
        }
        let key = Self::load(paths)?;
        key.adopt(connection, paths).map_err(|failure| paths.explain(failure))?;
        Ok(key)
    }

    /// Reads the key file.
    pub(crate) fn load(paths: &StorePaths) -> Result<Self, StoreError> {
        let missing = |path| StoreError::AuditKeyMissing { path };
        Ok(Self::new(&key_file::load(paths.audit_key(), missing)?))
    }

    pub(super) fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes a key of any length"))
    }

    /// Creates the head of an empty chain, or checks that the existing head was made with this key.
    fn adopt(&self, connection: &Connection, paths: &StorePaths) -> Result<(), Failure> {
        let head = Head { seq: 0, hash: Digest::ZERO };
        let statement = "INSERT OR IGNORE INTO audit_head (id, key_check, seq, hash, mac) \
                         VALUES (1, ?1, ?2, ?3, ?4)";
        if !has_head(connection)? {
            let left = "SELECT EXISTS (SELECT 1 FROM audit) OR EXISTS (SELECT 1 FROM audit_anchor)";
            if connection.query_row(left, [], |row| row.get(0))? {
                return Err(StoreError::AuditBroken.into());
            }
            let mac = self.head_mac(&head);
            connection.execute(statement, params![self.check(), 0, head.hash, mac])?;
        }
        if self.made(connection)? {
            Ok(())
        } else {
            Err(StoreError::AuditKeyWrong { path: paths.audit_key() }.into())
        }
    }

    /// Whether the log was written with this key.
    pub(super) fn made(&self, connection: &Connection) -> Result<bool, Failure> {
        Ok(stored_check(connection)? == Some(self.check()))
    }

    /// Returns a code by which the key is recognised, and which does not reveal it.
    pub(super) fn check(&self) -> Digest {
        self.mac("silica audit key", &[])
    }

    pub(super) fn head_mac(&self, head: &Head) -> Digest {
        self.mac("silica audit head", &[Some(&head.seq.to_be_bytes()), Some(head.hash.as_bytes())])
    }

    pub(super) fn anchor_mac(&self, anchor: &Anchor) -> Digest {
        let fields: [Option<&[u8]>; 4] = [
            Some(&anchor.seq.to_be_bytes()),
            Some(anchor.hash.as_bytes()),
            Some(&anchor.pruned_at.as_micros().to_be_bytes()),
            Some(&anchor.pruned.to_be_bytes()),
        ];
        self.mac("silica audit anchor", &fields)
    }

    /// Returns the code of a line of the journal.
    pub(crate) fn line_code(&self, before: &Digest, line: &str) -> Digest {
        self.mac("silica pending line", &[Some(before.as_bytes()), Some(line.as_bytes())])
    }

    /// Returns the code of a record.
    pub(super) fn hash(&self, seq: u64, previous: &Digest, entry: &ChainEntry<'_>) -> Digest {
        let fields = [
            Some(previous.as_bytes().as_slice()),
            Some(&seq.to_be_bytes()),
            Some(&entry.time.as_micros().to_be_bytes()),
            Some(entry.kind.name().as_bytes()),
            entry.execution.map(str::as_bytes),
            entry.tenant.map(str::as_bytes),
            entry.sandbox.map(str::as_bytes),
            Some(entry.body.as_bytes()),
        ];
        self.mac("silica audit record", &fields)
    }

    /// Returns the code of some fields. Each field goes in with its length, so that no two lists of
    /// fields give the same bytes.
    fn mac(&self, purpose: &str, fields: &[Option<&[u8]>]) -> Digest {
        let mut mac = self.0.clone();
        for field in std::iter::once(&Some(purpose.as_bytes())).chain(fields) {
            match field {
                None => mac.update(&[0]),
                Some(bytes) => {
                    mac.update(&[1]);
                    mac.update(&(bytes.len() as u64).to_be_bytes());
                    mac.update(bytes);
                }
            }
        }
        Digest::from_bytes(mac.finalize().into_bytes().into())
    }
}

impl Record {
    /// Returns what of it is authenticated, apart from its number and the code before it.
    pub(super) fn entry(&self) -> ChainEntry<'_> {
        ChainEntry {
            time: self.time,
            kind: self.kind,
            execution: self.execution.as_deref(),
            tenant: self.tenant.as_deref(),
            sandbox: self.sandbox.as_deref(),
            body: &self.body,
        }
    }
}

/// Appends a record. The transaction holds SQLite's write lock, so no other process can append
/// after the head that is read here.
pub(super) fn append(
    connection: &Connection,
    key: &ChainKey,
    entry: &ChainEntry<'_>,
) -> Result<Head, Failure> {
    let (before, mac) = stored_head(connection)?.ok_or(StoreError::AuditBroken)?;
    // Appending to a head that was set back would hide that records were cut off.
    if mac != key.head_mac(&before) {
        return Err(StoreError::AuditBroken.into());
    }
    let seq = before.seq + 1;
    let hash = key.hash(seq, &before.hash, entry);
    let ChainEntry { time, kind, execution, tenant, sandbox, body } = entry;
    let body = SplitBody::new(body);
    let (code, code_at) = body.columns();
    let statement = "INSERT INTO audit (seq, time, kind, execution, tenant, sandbox, body, previous, \
                     hash, code, code_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    connection.prepare_cached(statement)?.execute(params![
        seq as i64,
        time,
        kind,
        execution,
        tenant,
        sandbox,
        body.rest,
        before.hash,
        hash,
        code,
        code_at
    ])?;
    let bytes = body.store_code(connection)?;
    let head = Head { seq, hash };
    let statement = "UPDATE audit_head SET seq = ?1, hash = ?2, mac = ?3, bytes = bytes + ?4 \
                     WHERE id = 1";
    connection.prepare_cached(statement)?.execute(params![
        seq as i64,
        hash,
        key.head_mac(&head),
        bytes as i64
    ])?;
    Ok(head)
}

/// Returns the head, without checking its code.
pub(super) fn head(connection: &Connection) -> Result<Head, Failure> {
    Ok(stored_head(connection)?.ok_or(StoreError::AuditBroken)?.0)
}

/// Returns the head and its code; `None` if it is missing.
pub(super) fn stored_head(connection: &Connection) -> Result<Option<(Head, Digest)>, Failure> {
    let statement = "SELECT seq, hash, mac FROM audit_head WHERE id = 1";
    let head = connection
        .prepare_cached(statement)?
        .query_row([], |row| {
            let head = Head { seq: row.get::<_, i64>(0)?.max(0) as u64, hash: row.get(1)? };
            Ok((head, row.get(2)?))
        })
        .optional()?;
    Ok(head)
}

/// Returns about how many bytes the records take.
pub(super) fn stored_bytes(connection: &Connection) -> Result<u64, Failure> {
    let statement = "SELECT bytes FROM audit_head WHERE id = 1";
    let bytes: Option<i64> =
        connection.prepare_cached(statement)?.query_row([], |row| row.get(0)).optional()?;
    Ok(bytes.map_or(0, |bytes| bytes.max(0) as u64))
}

/// Returns the code by which the key of the log is recognised.
pub(super) fn stored_check(connection: &Connection) -> Result<Option<Digest>, Failure> {
    let statement = "SELECT key_check FROM audit_head WHERE id = 1";
    Ok(connection.query_row(statement, [], |row| row.get(0)).optional()?)
}

/// Returns the anchor and its code; `None` if nothing has been pruned.
pub(super) fn stored_anchor(connection: &Connection) -> Result<Option<(Anchor, Digest)>, Failure> {
    let statement = "SELECT seq, hash, pruned_at, pruned, mac FROM audit_anchor WHERE id = 1";
    let anchor = connection
        .prepare_cached(statement)?
        .query_row([], |row| {
            let anchor = Anchor {
                seq: row.get::<_, i64>(0)?.max(0) as u64,
                hash: row.get(1)?,
                pruned_at: row.get(2)?,
                pruned: row.get::<_, i64>(3)?.max(0) as u64,
            };
            Ok((anchor, row.get(4)?))
        })
        .optional()?;
    Ok(anchor)
}

fn has_head(connection: &Connection) -> Result<bool, Failure> {
    Ok(connection.query_row("SELECT EXISTS (SELECT 1 FROM audit_head)", [], |row| row.get(0))?)
}
