//! The persistent data of Silica: keys, their secrets, records of sandboxes, approvals and the audit
//! log, in one SQLite file.
//!
//! A [`Store`] is a cheap handle. All writes of a process share one connection. A task that finds
//! it free commits on its own thread; otherwise the writer thread commits all queued writes in one
//! transaction (`writer`). A server may answer some writes when they are in a journal file, and
//! commits them within milliseconds (`journal`). Reads have connections of their own; in a server a
//! read first commits the pending writes, and waits for that for a moment at most. Each operation
//! is a value that is awaited, or waited for with `wait()` on a thread that may block.
//!
//! Several processes may have the file open: one server, which holds a lock, and any number of
//! short-lived tools and readers. Each transaction that writes begins by taking SQLite's write lock
//! and reads the end of the audit chain from the file, so the chain has one writer at a time,
//! whichever process that is.
//!
//! Never here: anything about sandboxes' processes or HTTP. Other programs can change the file, so
//! no record is proof by itself; [`audit`] shows tampering with its own records.

pub mod approvals;
pub mod audit;
mod digest;
mod error;
mod file;
mod housekeeper;
mod id;
mod journal;
mod key_file;
pub mod keys;
mod limits;
mod random;
mod reader;
pub mod sandboxes;
mod schema;
pub mod secrets;
mod store;
#[cfg(test)]
mod testing;
mod timestamp;
mod writer;

pub use digest::Digest;
pub use error::StoreError;
pub use id::{ApprovalId, ExecutionId, IdError, KeyId, SandboxId, SnapshotId, Tenant};
pub use limits::{AuditedLimits, limits_json};
pub use random::random_hex;
pub use reader::Read;
pub use store::{Access, Clock, Durability, Store, StoreOptions};
pub use timestamp::{Timestamp, TimestampError};
pub use writer::Write;

/// The name of the database in the data directory.
pub const DATABASE_NAME: &str = "silica.db";
