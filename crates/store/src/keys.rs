//! The keys of clients. The store holds only the digest of a secret, never the secret.
//!
//! A lookup uses a cache in memory. It reflects changes by this process at once, a key that another
//! process made (`silica key create` beside a running server) at once too, and one that another
//! process revoked within [`KEYS_AGE_MAX`].

mod cache;
mod secret;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use crate::approvals::{expire_of, grants};
use crate::audit::{Note, append_note};
use crate::error::Failure;
use crate::{Digest, KeyId, Read, Store, StoreError, Tenant, Timestamp, Write, secrets};

pub(crate) use cache::KeyCache;
pub use cache::{KEYS_AGE_MAX, KeyMatch, UNKNOWN_AGE_MAX};
pub use secret::KeySecret;

/// The most keys there can be, revoked ones included; all are held in memory.
const KEYS_MAX: usize = 10_000;
/// The longest name of a key.
const NAME_CHARS_MAX: usize = 100;
/// The longest JSON of a key's limits.
const LIMITS_BYTES_MAX: usize = 16 * 1024;

/// A key as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyRecord {
    /// Its id, which is no secret.
    pub id: KeyId,
    /// Its name, for people.
    pub name: String,
    /// Whether it may use all routes, those of other keys' sandboxes included.
    pub admin: bool,
    /// Whether it may decide about approvals.
    pub approve: bool,
    /// Whether it opens the Jupyter facade and nothing else; only then may it be in a path.
    pub jupyter: bool,
    /// Its own limits, as JSON of the server's; `None` for the server's defaults.
    pub limits: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A key to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// Its name, for people.
    pub name: KeyName,
    /// Whether it may use all routes, those of other keys' sandboxes included.
    pub admin: bool,
    /// Whether it may decide about approvals.
    pub approve: bool,
    /// Whether it opens the Jupyter facade and nothing else; only then may it be in a path.
    pub jupyter: bool,
    /// Its own limits, as JSON of the server's; `None` for the server's defaults.
    pub limits: Option<String>,
}

/// A key's name: one line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyName(String);

/// The error for a text that is not a valid name of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a key's name must be 1 to {NAME_CHARS_MAX} characters on one line, without spaces around them"
)]
pub struct KeyNameError;

impl KeyName {
    /// Checks that a text is a valid name.
    pub fn new(text: &str) -> Result<Self, KeyNameError> {
        let length = text.chars().count();
        let fits = (1..=NAME_CHARS_MAX).contains(&length) && text.trim() == text;
        if fits && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(KeyNameError)
        }
    }
}

/// The result of [`Keys::revoke`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// It is revoked now.
    Done(KeyRecord),
    /// It had been revoked before.
    Before(KeyRecord),
    /// There is no such key.
    Unknown,
}

/// The keys of a store.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'store> {
    store: &'store Store,
}

impl<'store> Keys<'store> {
    pub(crate) fn new(store: &'store Store) -> Self {
        Self { store }
    }

    /// Creates a key. The returned secret is not stored anywhere.
    pub fn create(self, new: NewKey) -> Write<(KeyRecord, KeySecret)> {
        let size = new.limits.as_ref().map_or(0, String::len);
        let prepared =
            StoreError::check_size("the length of the limits in bytes", size, LIMITS_BYTES_MAX)
                .and_then(|()| Ok((KeyId::random()?, KeySecret::random()?)));
        let (id, secret) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Write::refused(error),
        };
        let record = KeyRecord {
            id,
            name: new.name.0,
            admin: new.admin,
            approve: new.approve,
            jupyter: new.jupyter,
            limits: new.limits,
            created_at: self.store.now(),
            revoked_at: None,
        };
        let cache = self.store.key_cache().clone();
        self.store.write_chained(
            move |connection, chain| {
                insert(connection, &record, &secret.digest())?;
                let note = Note::new("key_created")
                    .with("key", record.id.as_str())
                    .with("name", &record.name)
                    .with("admin", if record.admin { "true" } else { "false" })
                    .with("approve", if record.approve { "true" } else { "false" });
                let note = if record.jupyter { note.with("jupyter", "true") } else { note };
                append_note(connection, chain, record.created_at, &note)?;
                Ok((record, secret))
            },
            move || cache.invalidate(),
        )
    }

    /// Finds the key of a secret, in the cache. Every [`KEYS_AGE_MAX`] it reads one row of the file
    /// to see whether the cache is current, and for a secret that the cache does not hold every
    /// [`UNKNOWN_AGE_MAX`]. The result holds for the keys at `asked` or later.
    pub fn find_by_secret(self, text: &str, asked: Instant) -> Result<KeyMatch, StoreError> {
        match KeySecret::parse(text) {
            Some(secret) => {
                self.store.key_cache().find(self.store.readers(), &secret.digest(), asked)
            }
            None => Ok(KeyMatch::Unknown),
        }
    }

    /// Whether the key of a tenant is revoked, by the same cache.
    pub fn is_revoked(self, tenant: &Tenant) -> Result<bool, StoreError> {
        self.store.key_cache().is_revoked(self.store.readers(), tenant)
    }

    /// Whether the key of a tenant exists and is not revoked, by the same cache.
    pub fn is_active(self, tenant: &Tenant) -> Result<bool, StoreError> {
        Ok(self.record(tenant)?.is_some_and(|record| record.revoked_at.is_none()))
    }

    /// Returns the key of a tenant, by the same cache.
    pub fn record(self, tenant: &Tenant) -> Result<Option<Arc<KeyRecord>>, StoreError> {
        self.store.key_cache().record(self.store.readers(), tenant)
    }

    /// Lists all keys, oldest first.
    pub fn list(self) -> Read<Vec<KeyRecord>> {
        self.store.read(|connection| {
            Ok(load(connection)?.into_iter().map(|(_, record)| record).collect())
        })
    }

    /// Revokes a key for good. What waits for a decision expires with it; its secrets and the hosts that
    /// were allowed to it are deleted.
    pub fn revoke(self, id: &KeyId) -> Write<Revocation> {
        let id = id.clone();
        let now = self.store.now();
        let cache = self.store.key_cache().clone();
        self.store.write_chained(
            move |connection, chain| {
                let Some(mut record) = get(connection, &id)? else {
                    return Ok(Revocation::Unknown);
                };
                if record.revoked_at.is_some() {
                    return Ok(Revocation::Before(record));
                }
                let statement = "UPDATE key SET revoked_at = ?2 WHERE id = ?1";
                connection.prepare_cached(statement)?.execute(params![id, now])?;
                count_change(connection)?;
                let note =
                    Note::new("key_revoked").with("key", id.as_str()).with("name", &record.name);
                append_note(connection, chain, now, &note)?;
                let tenant = Tenant::from(&id);
                expire_of(connection, chain, &tenant, now)?;
                secrets::delete_of(connection, &tenant)?;
                grants::delete_of(connection, &tenant)?;
                record.revoked_at = Some(now);
                Ok(Revocation::Done(record))
            },
            move || cache.invalidate(),
        )
    }
}

const COLUMNS: &str = "id, name, admin, approve, jupyter, limits, created_at, revoked_at, digest";

fn insert(connection: &Connection, record: &KeyRecord, digest: &Digest) -> Result<(), Failure> {
    let count: i64 = connection.query_row("SELECT count(*) FROM key", [], |row| row.get(0))?;
    StoreError::check_size("the number of keys", count as usize + 1, KEYS_MAX)?;
    let KeyRecord { id, name, admin, approve, jupyter, limits, created_at, revoked_at } = record;
    let inserted = connection
        .prepare_cached(&format!(
            "INSERT INTO key ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
        ))?
        .execute(params![id, name, admin, approve, jupyter, limits, created_at, revoked_at, digest])
        .map_err(Failure::from);
    if inserted.as_ref().is_err_and(Failure::is_conflict) {
        return Err(StoreError::Duplicate { id: id.to_string() }.into());
    }
    inserted?;
    count_change(connection)
}

/// Counts a change of the keys, by which other processes notice it.
fn count_change(connection: &Connection) -> Result<(), Failure> {
    let statement = "UPDATE change SET count = count + 1 WHERE name = 'keys'";
    connection.prepare_cached(statement)?.execute([])?;
    Ok(())
}

/// Whether the key of a tenant is revoked, in the transaction of a change that depends on it.
pub(crate) fn is_revoked(connection: &Connection, tenant: &Tenant) -> Result<bool, Failure> {
    let statement = "SELECT EXISTS (SELECT 1 FROM key WHERE id = ?1 AND revoked_at IS NOT NULL)";
    Ok(connection.prepare_cached(statement)?.query_row([tenant], |row| row.get(0))?)
}

fn changes(connection: &Connection) -> Result<i64, Failure> {
    let statement = "SELECT count FROM change WHERE name = 'keys'";
    Ok(connection.prepare_cached(statement)?.query_row([], |row| row.get(0))?)
}

fn get(connection: &Connection, id: &KeyId) -> Result<Option<KeyRecord>, Failure> {
    let statement = format!("SELECT {COLUMNS} FROM key WHERE id = ?1");
    Ok(connection.prepare_cached(&statement)?.query_row([id], record).optional()?)
}

fn load(connection: &Connection) -> Result<Vec<(Digest, KeyRecord)>, Failure> {
    let statement = format!("SELECT {COLUMNS} FROM key ORDER BY created_at, id LIMIT {KEYS_MAX}");
    let mut statement = connection.prepare_cached(&statement)?;
    let rows = statement.query_map([], |row| Ok((row.get("digest")?, record(row)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn record(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    Ok(KeyRecord {
        id: row.get("id")?,
        name: row.get("name")?,
        admin: row.get("admin")?,
        approve: row.get("approve")?,
        jupyter: row.get("jupyter")?,
        limits: row.get("limits")?,
        created_at: row.get("created_at")?,
        revoked_at: row.get("revoked_at")?,
    })
}
