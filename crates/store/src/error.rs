//! The errors of the store, and what an operator can do about each.

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::ErrorCode;

use crate::ExecutionId;

/// Why an operation of the store failed. It can be cloned, since all callers that share a
/// transaction get its error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The database does not exist.
    #[error("there is no store at {path}")]
    Missing {
        /// The database.
        path: PathBuf,
    },
    /// It was opened for reading, and its schema is older than this version's.
    #[error("{path} has schema {found}, and this version of Silica reads schema {known}")]
    NotReady {
        /// The database.
        path: PathBuf,
        /// The schema it has.
        found: i64,
        /// The schema this version knows.
        known: i64,
    },
    /// A newer version of Silica made it.
    #[error(
        "{path} was written by a newer version of Silica: it has schema {found}, this version \
         knows {known}"
    )]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// The schema it has.
        found: i64,
        /// The schema this version knows.
        known: i64,
    },
    /// It is a database of another program.
    #[error("{path} is a database, but not one of Silica's")]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// Another server uses it.
    #[error("another server is using {path}{}", process(.holder))]
    InUse {
        /// The database.
        path: PathBuf,
        /// The other server's process id, if it is known.
        holder: String,
    },
    /// Another process was writing for too long.
    #[error("{path} was locked by another process for {patience:?}")]
    Locked {
        /// The database.
        path: PathBuf,
        /// How long was waited.
        patience: Duration,
    },
    /// It, or its directory, may not be written.
    #[error("{path} cannot be written: it, its directory or its file system is read-only")]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// A process that died left it open, and it cannot be recovered because nothing can be written.
    #[error(
        "{path} was not closed by the process that wrote it, and it cannot be recovered because \
         it or its directory is read-only"
    )]
    Unclosed {
        /// The database.
        path: PathBuf,
    },
    /// Its content is not a valid database.
    #[error("{path} is damaged")]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What SQLite found.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// The file system is full.
    #[error("there is no room left for {path}")]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// The key of the audit chain is missing, and there are records that were made with it.
    #[error("{path} is missing; the audit log was written with this key")]
    AuditKeyMissing {
        /// The key file.
        path: PathBuf,
    },
    /// The key file is not a key.
    #[error("{path} is not a key: it must hold 64 hexadecimal digits")]
    KeyFileMalformed {
        /// The key file.
        path: PathBuf,
    },
    /// Other users may read or change the key.
    #[error("{path} can be read or written by other users (mode {mode:03o}), so it is not secret")]
    KeyFileExposed {
        /// The key file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The key is not the one the audit log was written with.
    #[error("{path} is not the key that the audit log was written with")]
    AuditKeyWrong {
        /// The key file.
        path: PathBuf,
    },
    /// The key of the secrets is missing, and there are secrets that were sealed with it.
    #[error("{path} is missing; the secrets in the store were sealed with this key")]
    SecretsKeyMissing {
        /// The key file.
        path: PathBuf,
    },
    /// A secret was sealed with another key, or its row was changed.
    #[error("the secret {name} cannot be opened with {path}")]
    SecretSealed {
        /// The name of the secret.
        name: String,
        /// The key file.
        path: PathBuf,
    },
    /// The head of the audit chain was changed without the key; nothing is added to the chain.
    #[error("the head of the audit log was changed by another program")]
    AuditBroken,
    /// A record of the audit log does not have the form in which it was written.
    #[error("record {seq} of the audit log cannot be read")]
    AuditUnreadable {
        /// Its number.
        seq: u64,
    },
    /// An id was used before.
    #[error("{id} exists already")]
    Duplicate {
        /// The id.
        id: String,
    },
    /// An execution can be finished only once.
    #[error("execution {execution} has been finished before")]
    AlreadyFinished {
        /// The execution.
        execution: ExecutionId,
    },
    /// A value is too large.
    #[error("{what} must be at most {max}, not {size}")]
    TooLarge {
        /// The value, with its unit.
        what: &'static str,
        /// Its size.
        size: usize,
        /// The largest size.
        max: usize,
    },
    /// The store was closed, or its writing thread has died.
    #[error("the store is closed")]
    Closed,
    /// Another error of the operating system.
    #[error("{doing}")]
    Io {
        /// What could not be done.
        doing: String,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// Another error of the database.
    #[error("the database {path} failed")]
    Sql {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: Arc<rusqlite::Error>,
    },
}

impl StoreError {
    /// Returns what the operator can do about it.
    pub fn advice(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => Some(
                "it is created with the first key (silica key create NAME) or when a server \
                 starts; SILICA_HOME is its directory"
                    .to_owned(),
            ),
            Self::NotReady { .. } => {
                Some("start the server once; it brings the file up to date".to_owned())
            }
            Self::NewerSchema { .. } => {
                Some("use the newer version, or another data directory (SILICA_HOME)".to_owned())
            }
            Self::Foreign { path } | Self::Damaged { path, .. } => Some(format!(
                "stop the server, then restore {path} from a backup; or, to start with an empty \
                 store, move it away together with silica.pending, {name}-wal and {name}-shm \
                 beside it",
                path = path.display(),
                name = path.file_name().unwrap_or_default().to_string_lossy(),
            )),
            Self::InUse { .. } => {
                Some("stop it, or give this one its own data directory (SILICA_HOME)".to_owned())
            }
            Self::Locked { .. } => {
                Some("try again; find the process with fuser or lsof".to_owned())
            }
            Self::ReadOnly { .. } => {
                Some("run as the user it belongs to, or make the file system writable".to_owned())
            }
            Self::Unclosed { path } => Some(format!(
                "copy {path}, {path}-wal, {pending} and audit.key to a directory that can be \
                 written, and read them there",
                path = path.display(),
                pending = path.with_extension("pending").display(),
            )),
            Self::Full { .. } => Some(
                "make room on the file system; nothing was lost, and the store goes on by itself"
                    .to_owned(),
            ),
            Self::AuditKeyMissing { path } | Self::AuditKeyWrong { path } => Some(format!(
                "restore {} from a backup; without it the log cannot be checked or continued, only \
                 moved away together with the database",
                path.display()
            )),
            Self::KeyFileMalformed { path } => {
                Some(format!("restore {} from a backup", path.display()))
            }
            Self::SecretsKeyMissing { path } | Self::SecretSealed { path, .. } => Some(format!(
                "restore {} from a backup, or delete the secrets and set them again",
                path.display()
            )),
            Self::KeyFileExposed { path, .. } => Some(format!("chmod 600 {}", path.display())),
            Self::AuditBroken | Self::AuditUnreadable { .. } => {
                Some("look at it with: silica audit verify".to_owned())
            }
            Self::Duplicate { .. }
            | Self::AlreadyFinished { .. }
            | Self::TooLarge { .. }
            | Self::Closed
            | Self::Io { .. }
            | Self::Sql { .. } => None,
        }
    }

    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Io { doing: doing.into(), source: Arc::new(source) }
    }

    /// Fails if a size is larger than allowed.
    pub(crate) fn check_size(what: &'static str, size: usize, max: usize) -> Result<(), Self> {
        if size > max { Err(Self::TooLarge { what, size, max }) } else { Ok(()) }
    }
}

fn process(holder: &str) -> String {
    if holder.is_empty() { String::new() } else { format!(" (process {holder})") }
}

/// An error inside a transaction, without the path of the file.
#[derive(Debug)]
pub(crate) enum Failure {
    Sql(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    /// Whether a constraint of the schema was violated: the id exists already.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Sql(error)
            if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation))
    }

    /// Turns it into an error that a caller can act on.
    pub(crate) fn explain(self, path: &Path, patience: Duration) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Sql(error) => explain(error, path.to_owned(), patience),
        }
    }
}

fn explain(error: rusqlite::Error, path: PathBuf, patience: Duration) -> StoreError {
    let Some(code) = error.sqlite_error_code() else {
        return StoreError::Sql { path, source: Arc::new(error) };
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Locked { path, patience }
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly { path },
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            StoreError::Damaged { path, source: Arc::new(error) }
        }
        ErrorCode::DiskFull => StoreError::Full { path },
        // SQLite reports a general error if there is no space for the index of the log in shared
        // memory.
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen if has_no_room(&path) => {
            StoreError::Full { path }
        }
        _ => StoreError::Sql { path, source: Arc::new(error) },
    }
}

fn has_no_room(path: &Path) -> bool {
    let directory = path.parent().unwrap_or(Path::new("/"));
    rustix::fs::statvfs(directory).is_ok_and(|found| found.f_bavail == 0 || found.f_favail == 0)
}
