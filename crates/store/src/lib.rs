//! What Silica keeps between starts: keys, records of sandboxes, approvals and the audit log, in one
//! SQLite file.
//!
//! A [`Store`] is a cheap handle. Everything that writes goes through one thread, which commits what
//! is queued in one transaction; everything that reads has connections of its own, and waits a moment
//! at most for what a server has only promised yet. Each operation is a value that is either awaited or, on a thread of one's own,
//! waited for with `wait()`.
//!
//! Several processes may have the file open: one server, which holds a lock, and any number of
//! short-lived tools and readers. Each transaction that writes begins by taking SQLite's write lock
//! and reads what it continues from the file, so the audit chain has one writer at a time whoever
//! that is.
//!
//! Never here: anything of sandboxes or HTTP, and no answer that a caller would have to believe
//! because the file says so; the file may have been changed by others, and [`audit`] tells.

pub mod approvals;
pub mod audit;
mod digest;
mod error;
mod file;
mod id;
mod journal;
mod keeper;
pub mod keys;
mod random;
mod reader;
pub mod sandboxes;
mod schema;
mod store;
#[cfg(test)]
mod testing;
mod timestamp;
mod writer;

pub use digest::Digest;
pub use error::StoreError;
pub use id::{ApprovalId, ExecutionId, IdError, KeyId, SandboxId, Tenant};
pub use reader::Read;
pub use store::{Access, Clock, Durability, Store, StoreOptions};
pub use timestamp::{Timestamp, TimestampError};
pub use writer::Write;

/// The name of the database in the data directory.
pub const DATABASE_NAME: &str = "silica.db";
