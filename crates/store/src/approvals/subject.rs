//! What waits for a decision, and how far the approval of a connection reaches.

use std::str::FromStr;

use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use crate::IdError;

/// What waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The code of a cell.
    Code,
    /// A connection to a host that no rule allows.
    Network { host: String, port: u16 },
}

impl Subject {
    /// Returns the name of its kind in the database and in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Network { .. } => "network",
        }
    }

    /// Returns the text of a connection, whose digest the decision holds for; empty for code.
    pub fn text(&self) -> String {
        match self {
            Self::Code => String::new(),
            Self::Network { host, port } => format!("connect to {host}:{port}"),
        }
    }

    pub(super) fn columns(&self) -> (&'static str, Option<&str>, Option<u16>) {
        match self {
            Self::Code => (self.kind(), None, None),
            Self::Network { host, port } => (self.kind(), Some(host), Some(*port)),
        }
    }

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let kind: String = row.get("kind")?;
        match kind.as_str() {
            "network" => Ok(Self::Network { host: row.get("host")?, port: row.get("port")? }),
            _ => Ok(Self::Code),
        }
    }
}

/// How far the approval of a connection reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The connection that waits.
    Once,
    /// Connections of its sandbox to this host and port.
    Sandbox,
    /// Connections of all sandboxes of the key to this host and port.
    Key,
}

impl Scope {
    /// Returns its name in the database and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Sandbox => "sandbox",
            Self::Key => "key",
        }
    }
}

impl FromStr for Scope {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let scopes = [Self::Once, Self::Sandbox, Self::Key];
        let found = scopes.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| IdError::new("scope (once, sandbox, key)", text))
    }
}

impl ToSql for Scope {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.name().into())
    }
}

impl FromSql for Scope {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_str()?.parse().map_err(FromSqlError::other)
    }
}
