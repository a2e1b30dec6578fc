//! The ids of what is stored: each kind is a type of its own, checked when it is parsed.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use crate::StoreError;
use crate::digest::to_hex;
use crate::random::random;
use crate::timestamp::Timestamp;

/// The longest id that is not made by the store.
const ID_BYTES_MAX: usize = 64;
/// How much of an invalid text is quoted in the error.
const QUOTED_CHARS_MAX: usize = 80;

/// The error for a text that is not of the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind}")]
pub struct IdError {
    /// The expected form.
    pub kind: &'static str,
    /// The text, shortened.
    pub text: String,
}

impl IdError {
    pub(crate) fn new(kind: &'static str, text: &str) -> Self {
        Self { kind, text: text.chars().take(QUOTED_CHARS_MAX).collect() }
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $is_valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Parses an id.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if is_valid(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(IdError::new($kind, text))
                }
            }

            /// Returns it as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(&self.0)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::from(self.0.as_str()))
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                Self::parse(value.as_str()?).map_err(|error| FromSqlError::Other(Box::new(error)))
            }
        }
    };
}

id!(
    /// The id of a key: `key_` and 12 hexadecimal digits. It is no secret.
    KeyId,
    "key's id (key_ and 12 hexadecimal digits)",
    |text| has_form(text, "key_", 12, is_hex)
);
id!(
    /// The id of a sandbox: `sbx` and 20 lowercase letters or digits, so that it can be part of a
    /// host name. Old records have a `_` in between.
    SandboxId,
    "sandbox's id (sbx and 20 lowercase letters or digits)",
    |text| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        has_form(text, "sbx", 20, plain) || has_form(text, "sbx_", 20, plain)
    }
);
id!(
    /// The id of a snapshot: `snp` and 20 hexadecimal digits.
    SnapshotId,
    "snapshot's id (snp and 20 hexadecimal digits)",
    |text| has_form(text, "snp", 20, is_hex)
);
id!(
    /// The id of one execution: a cell, a command, a run.
    ExecutionId,
    "execution's id (letters, digits, - and _, at most 64)",
    is_plain
);
id!(
    /// The id of an approval: `apr_` and 20 hexadecimal digits.
    ApprovalId,
    "approval's id (apr_ and 20 hexadecimal digits)",
    |text| has_form(text, "apr_", 20, is_hex)
);
id!(
    /// The owner of a sandbox or an execution: a key's id, or a name of the server's own if it has
    /// no keys.
    Tenant,
    "tenant (letters, digits, - and _, at most 64)",
    is_plain
);

impl KeyId {
    pub(crate) fn random() -> Result<Self, StoreError> {
        Ok(Self(format!("key_{}", to_hex(&random::<6>()?))))
    }
}

impl SandboxId {
    /// Makes a new id.
    pub fn random() -> Result<Self, StoreError> {
        Ok(Self(format!("sbx{}", to_hex(&random::<10>()?))))
    }
}

impl SnapshotId {
    /// Makes a new id.
    pub fn random() -> Result<Self, StoreError> {
        Ok(Self(format!("snp{}", to_hex(&random::<10>()?))))
    }
}

impl ExecutionId {
    /// Makes a new id of the time in microseconds and random digits. Ids of about the same time are
    /// neighbours in the index of the audit log, so that a record changes a page that is in the
    /// cache.
    pub fn random() -> Result<Self, StoreError> {
        let time = Timestamp::now().as_micros().max(0);
        Ok(Self(format!("exe_{time:014x}{}", to_hex(&random::<6>()?))))
    }
}

impl ApprovalId {
    /// Makes a new id.
    pub fn random() -> Result<Self, StoreError> {
        Ok(Self(format!("apr_{}", to_hex(&random::<10>()?))))
    }
}

impl From<&KeyId> for Tenant {
    fn from(key: &KeyId) -> Self {
        Self(key.0.clone())
    }
}

fn has_form(text: &str, prefix: &str, length: usize, allowed: fn(u8) -> bool) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| rest.len() == length && rest.bytes().all(allowed))
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn is_plain(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
}
