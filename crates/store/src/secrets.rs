//! The secrets of keys: values that sandboxes may use and never see.
//!
//! A value is sealed with a key in a file of its own beside the database (`secrets.key`), and bound
//! to its owner and its name: a row that was copied to another owner or name does not open. The
//! store never returns a value but through [`Secrets::open`], whose only caller hands it to the
//! process that puts it into requests.

#[cfg(test)]
mod tests;

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::audit::{ChainKey, Note, append_note};
use crate::error::Failure;
use crate::file::StorePaths;
use crate::key_file;
use crate::random::random;
use crate::{Read, Store, StoreError, Tenant, Timestamp, Write};

/// The most secrets of one key.
pub const SECRETS_OF_ONE_MAX: usize = 100;
/// The longest value.
pub const VALUE_BYTES_MAX: usize = 8 * 1024;
/// The longest terms, as JSON.
const TERMS_BYTES_MAX: usize = 16 * 1024;
/// The longest name.
const NAME_BYTES_MAX: usize = 64;

/// The value of a secret. It is wiped when it is dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Takes a value.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Returns the value, for the process that uses it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretText(****)")
    }
}

/// The name of a secret: letters, digits, `-`, `_` and `.`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

/// The error for a text that is not a valid name of a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret's name must be 1 to {NAME_BYTES_MAX} letters, digits, -, _ and .")]
pub struct SecretNameError;

impl SecretName {
    /// Checks that a text is a valid name.
    pub fn parse(text: &str) -> Result<Self, SecretNameError> {
        let allowed =
            |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || b"-_.".contains(&byte);
        let fits = (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed);
        if fits { Ok(Self(text.to_owned())) } else { Err(SecretNameError) }
    }

    /// Returns it as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a secret may go. The store keeps it as it is; the server checks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretTerms {
    /// Host names or patterns, each with a port behind a colon if it is not 443.
    pub hosts: Vec<String>,
    /// Parts of a request in which the placeholder is replaced; empty is `header`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
    /// The environment variable that holds the placeholder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// What the placeholder begins with, for libraries that check it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// A header that is set without a placeholder: its name, and its value with `{}` in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inject: Option<(String, String)>,
    /// Whether answers are searched for the tokens that a model used.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_tokens: bool,
}

/// A secret to be stored.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// The key that owns it.
    pub tenant: Tenant,
    pub name: SecretName,
    pub value: SecretText,
    /// Where the value may go.
    pub terms: SecretTerms,
}

/// A secret as clients see it, without its value.
#[derive(Clone, Debug, PartialEq)]
pub struct SecretRecord {
    pub name: String,
    pub terms: SecretTerms,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
}

/// The result of [`Secrets::put`].
#[derive(Clone, Debug, PartialEq)]
pub enum Put {
    Created(SecretRecord),
    Replaced(SecretRecord),
    /// The key has [`SECRETS_OF_ONE_MAX`] already.
    TooMany,
}

/// The secrets of a store.
#[derive(Clone, Copy, Debug)]
pub struct Secrets<'store> {
    store: &'store Store,
}

impl<'store> Secrets<'store> {
    pub(crate) fn new(store: &'store Store) -> Self {
        Self { store }
    }

    /// Stores a secret, or replaces the one of this name.
    pub fn put(self, new: NewSecret) -> Write<Put> {
        let terms = serde_json::to_string(&new.terms)
            .expect("terms of texts can always be written as JSON");
        let value = new.value.reveal().len();
        let checked = StoreError::check_size(
            "the length of the terms in bytes",
            terms.len(),
            TERMS_BYTES_MAX,
        )
        .and_then(|()| {
            let what = "the length of the value in bytes";
            StoreError::check_size(what, value, VALUE_BYTES_MAX)
        });
        if let Err(error) = checked {
            return Write::refused(error);
        }
        let paths = self.store.paths().clone();
        let now = self.store.now();
        self.store.write_chained(
            move |connection, chain| {
                let before = get(connection, &new.tenant, &new.name)?;
                if before.is_none() && count(connection, &new.tenant)? >= SECRETS_OF_ONE_MAX {
                    return Ok(Put::TooMany);
                }
                let key = SealKey::for_writing(connection, &paths)?;
                let sealed = key.seal(&new.tenant, &new.name, &new.value)?;
                let created_at = before.as_ref().map_or(now, |before| before.created_at);
                let statement = "INSERT OR REPLACE INTO secret \
                    (tenant, name, sealed, terms, created_at, changed_at) \
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                let name = new.name.as_str();
                let values = params![new.tenant, name, sealed, terms, created_at, now];
                connection.prepare_cached(statement)?.execute(values)?;
                let event = if before.is_some() { "secret_replaced" } else { "secret_created" };
                note(connection, chain, now, event, &new.tenant, name)?;
                let name = name.to_owned();
                let record = SecretRecord { name, terms: new.terms, created_at, changed_at: now };
                Ok(if before.is_some() { Put::Replaced(record) } else { Put::Created(record) })
            },
            || (),
        )
    }

    /// Returns a secret without its value.
    pub fn get(self, tenant: &Tenant, name: &SecretName) -> Read<Option<SecretRecord>> {
        let (tenant, name) = (tenant.clone(), name.clone());
        self.store.read(move |connection| get(connection, &tenant, &name))
    }

    /// Lists the secrets of a key by name, without values.
    pub fn list(self, tenant: &Tenant) -> Read<Vec<SecretRecord>> {
        let tenant = tenant.clone();
        self.store.read(move |connection| {
            let statement = format!("SELECT {COLUMNS} FROM secret WHERE tenant = ?1 ORDER BY name");
            let mut statement = connection.prepare_cached(&statement)?;
            let rows = statement.query_map([tenant], record)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Returns a secret with its value.
    pub fn open(
        self,
        tenant: &Tenant,
        name: &SecretName,
    ) -> Read<Option<(SecretRecord, SecretText)>> {
        let (tenant, name) = (tenant.clone(), name.clone());
        let paths = self.store.paths().clone();
        self.store.read(move |connection| {
            let statement =
                format!("SELECT {COLUMNS}, sealed FROM secret WHERE tenant = ?1 AND name = ?2");
            let found = connection
                .prepare_cached(&statement)?
                .query_row(params![tenant, name.as_str()], |row| {
                    Ok((record(row)?, row.get::<_, Vec<u8>>("sealed")?))
                })
                .optional()?;
            let Some((record, sealed)) = found else { return Ok(None) };
            let value = SealKey::load(&paths)?.open(&paths, &tenant, &name, sealed)?;
            Ok(Some((record, value)))
        })
    }

    /// Deletes a secret; returns whether there was one.
    pub fn delete(self, tenant: &Tenant, name: &SecretName) -> Write<bool> {
        let (tenant, name) = (tenant.clone(), name.clone());
        let now = self.store.now();
        self.store.write_chained(
            move |connection, chain| {
                let statement = "DELETE FROM secret WHERE tenant = ?1 AND name = ?2";
                let values = params![tenant, name.as_str()];
                if connection.prepare_cached(statement)?.execute(values)? == 0 {
                    return Ok(false);
                }
                note(connection, chain, now, "secret_deleted", &tenant, name.as_str())?;
                Ok(true)
            },
            || (),
        )
    }
}

/// Deletes the secrets of a key, in the transaction that revokes the key.
pub(crate) fn delete_of(connection: &Connection, tenant: &Tenant) -> Result<(), Failure> {
    let statement = "DELETE FROM secret WHERE tenant = ?1";
    connection.prepare_cached(statement)?.execute([tenant])?;
    Ok(())
}

/// The key that seals values.
struct SealKey(LessSafeKey);

impl SealKey {
    /// Returns the key for a secret that is to be written. Creates the key if there is no secret.
    fn for_writing(connection: &Connection, paths: &StorePaths) -> Result<Self, Failure> {
        let statement = "SELECT EXISTS (SELECT 1 FROM secret)";
        if !connection.query_row(statement, [], |row| row.get(0))? {
            key_file::make(paths, &paths.secrets_key())?;
        }
        Ok(Self::load(paths)?)
    }

    fn load(paths: &StorePaths) -> Result<Self, StoreError> {
        let missing = |path| StoreError::SecretsKeyMissing { path };
        let key = Zeroizing::new(key_file::load(paths.secrets_key(), missing)?);
        let key = UnboundKey::new(&CHACHA20_POLY1305, &*key)
            .expect("the length of the key is that of the algorithm");
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Returns a random nonce and the sealed value behind it. With random nonces of 96 bits one key
    /// may seal some billions of values (NIST SP 800-38D, 8.3, of the same length).
    fn seal(
        &self,
        tenant: &Tenant,
        name: &SecretName,
        value: &SecretText,
    ) -> Result<Vec<u8>, StoreError> {
        let nonce = random::<NONCE_LEN>()?;
        let mut sealed = value.reveal().as_bytes().to_vec();
        self.0
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(binding(tenant, name)),
                &mut sealed,
            )
            .expect("a short value can be sealed");
        Ok([nonce.as_slice(), &sealed].concat())
    }

    fn open(
        &self,
        paths: &StorePaths,
        tenant: &Tenant,
        name: &SecretName,
        mut sealed: Vec<u8>,
    ) -> Result<SecretText, StoreError> {
        let refused = || StoreError::SecretSealed {
            name: name.as_str().to_owned(),
            path: paths.secrets_key(),
        };
        let (nonce, sealed) = sealed.split_first_chunk_mut::<NONCE_LEN>().ok_or_else(refused)?;
        let opened = self.0.open_in_place(
            Nonce::assume_unique_for_key(*nonce),
            Aad::from(binding(tenant, name)),
            sealed,
        );
        let bytes = Zeroizing::new(opened.map_err(|_| refused())?.to_vec());
        let text = std::str::from_utf8(&bytes).map_err(|_| refused())?;
        Ok(SecretText::new(text.to_owned()))
    }
}

/// Returns what a sealed value is bound to. Neither part can contain a NUL.
fn binding(tenant: &Tenant, name: &SecretName) -> Vec<u8> {
    format!("silica secret\0{tenant}\0{}", name.as_str()).into_bytes()
}

const COLUMNS: &str = "name, terms, created_at, changed_at";

fn count(connection: &Connection, tenant: &Tenant) -> Result<usize, Failure> {
    let statement = "SELECT count(*) FROM secret WHERE tenant = ?1";
    let count: i64 = connection.prepare_cached(statement)?.query_row([tenant], |row| row.get(0))?;
    Ok(count as usize)
}

fn get(
    connection: &Connection,
    tenant: &Tenant,
    name: &SecretName,
) -> Result<Option<SecretRecord>, Failure> {
    let statement = format!("SELECT {COLUMNS} FROM secret WHERE tenant = ?1 AND name = ?2");
    let values = params![tenant, name.as_str()];
    Ok(connection.prepare_cached(&statement)?.query_row(values, record).optional()?)
}

fn record(row: &Row<'_>) -> rusqlite::Result<SecretRecord> {
    let terms: String = row.get("terms")?;
    Ok(SecretRecord {
        name: row.get("name")?,
        // Another program may have changed the file; then the secret may go nowhere.
        terms: serde_json::from_str(&terms).unwrap_or_default(),
        created_at: row.get("created_at")?,
        changed_at: row.get("changed_at")?,
    })
}

fn note(
    connection: &Connection,
    chain: &ChainKey,
    now: Timestamp,
    event: &str,
    tenant: &Tenant,
    name: &str,
) -> Result<(), Failure> {
    let mut note = Note::new(event).with("secret", name);
    note.tenant = Some(tenant.clone());
    append_note(connection, chain, now, &note).map(drop)
}
