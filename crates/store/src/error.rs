//! What can go wrong with the store, and what to do about it.

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::ErrorCode;

use crate::ExecutionId;

/// Why the store did not do what it was asked. Several who waited for one transaction get the same.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was ever kept there.
    #[error("there is no store at {path}")]
    Missing {
        /// The database.
        path: PathBuf,
    },
    /// It was opened for reading before it was made ready for this version.
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
    /// It is a database of some other program.
    #[error("{path} is a database, but not one of Silica's")]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// Another server has it.
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
    /// It, or the directory around it, may not be written.
    #[error("{path} cannot be written: it, its directory or its file system is read-only")]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// It was left open by a process that died, and cannot be put in order where nothing can be
    /// written.
    #[error("{path} was not closed, and cannot be read where nothing can be written")]
    Unclosed {
        /// The database.
        path: PathBuf,
    },
    /// Its content is not a database any more.
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
    /// The key of the audit chain is gone, while records exist that were made with it.
    #[error("{path} is missing, and the audit log was written with it")]
    AuditKeyMissing {
        /// The key file.
        path: PathBuf,
    },
    /// The key file is not a key.
    #[error("{path} is not a key: it should hold 64 hexadecimal digits")]
    AuditKeyMalformed {
        /// The key file.
        path: PathBuf,
    },
    /// Others may read or change the key.
    #[error("{path} can be reached by other users (mode {mode:03o}), so it is no secret")]
    AuditKeyExposed {
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
    /// The end of the audit chain was changed by somebody without the key; nothing is added to it.
    #[error("the head of the audit log was changed by somebody else")]
    AuditBroken,
    /// A record of the audit log is not of the form in which it was written.
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
    /// An execution ends only once.
    #[error("execution {execution} has been finished before")]
    AlreadyFinished {
        /// Which.
        execution: ExecutionId,
    },
    /// More than is kept.
    #[error("{what} is {size}, but at most {max} is kept")]
    TooLarge {
        /// What of it.
        what: &'static str,
        /// How much it is.
        size: usize,
        /// How much it may be.
        max: usize,
    },
    /// The store was closed, or its writing thread has died.
    #[error("the store is closed")]
    Closed,
    /// Some other failure of the system.
    #[error("{doing}")]
    Io {
        /// What could not be done.
        doing: String,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// Some other failure of the database.
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
    /// What whoever runs Silica can do about it.
    pub fn advice(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => Some(
                "it is made when the first key is made (silica key create NAME) or a server starts; \
                 SILICA_HOME says where"
                    .to_owned(),
            ),
            Self::NotReady { .. } => {
                Some("start the server once; it brings the file up to date".to_owned())
            }
            Self::NewerSchema { .. } => {
                Some("use the newer version, or another data directory (SILICA_HOME)".to_owned())
            }
            Self::Foreign { path } | Self::Damaged { path, .. } => Some(format!(
                "stop the server, then restore {path} from a backup, or move it, silica.pending and the files {name}-wal \
                 and {name}-shm beside it away to begin anew",
                path = path.display(),
                name = path.file_name().unwrap_or_default().to_string_lossy(),
            )),
            Self::InUse { .. } => {
                Some("stop it, or give this one its own data directory (SILICA_HOME)".to_owned())
            }
            Self::Locked { .. } => Some("try again; find who holds it with fuser or lsof".to_owned()),
            Self::ReadOnly { .. } => {
                Some("run as the user it belongs to, or make the file system writable".to_owned())
            }
            Self::Unclosed { path } => Some(format!(
                "copy {path}, {path}-wal, {pending} and audit.key to a place that can be written, and read \
                 them there",
                path = path.display(),
                pending = path.with_extension("pending").display(),
            )),
            Self::Full { .. } => Some("make room; nothing was lost, and it then goes on".to_owned()),
            Self::AuditKeyMissing { path } | Self::AuditKeyWrong { path } => Some(format!(
                "restore {} from a backup; without it the log cannot be checked or continued, only \
                 moved away together with the database",
                path.display()
            )),
            Self::AuditKeyMalformed { path } => {
                Some(format!("restore {} from a backup", path.display()))
            }
            Self::AuditKeyExposed { path, .. } => Some(format!("chmod 600 {}", path.display())),
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

    /// Refuses what is larger than may be kept.
    pub(crate) fn check_size(what: &'static str, size: usize, max: usize) -> Result<(), Self> {
        if size > max { Err(Self::TooLarge { what, size, max }) } else { Ok(()) }
    }
}

fn process(holder: &str) -> String {
    if holder.is_empty() { String::new() } else { format!(" (process {holder})") }
}

/// A failure inside a transaction, which does not know the file's name.
#[derive(Debug)]
pub(crate) enum Failure {
    Sql(rusqlite::Error),
    Told(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Told(error)
    }
}

impl Failure {
    /// Whether a rule of the schema was broken: an id is there already.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Sql(error)
            if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation))
    }

    /// Says what happened in terms a caller can act on.
    pub(crate) fn explain(self, path: &Path, patience: Duration) -> StoreError {
        match self {
            Self::Told(error) => error,
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
        // The shared index beside the log fails with a general error where there is no room.
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
