//! The store against a real file system: locks, faults, and processes that are killed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod crash;
mod faults;
mod mount;
