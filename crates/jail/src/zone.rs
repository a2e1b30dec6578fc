//! The zone: one small process that makes and ends all enclosures of one engine.
//!
//! `launch` runs in the host's namespaces, forks the zone master into its own and then only waits;
//! `master` is the master's loop. The master is the first process of its pid namespace: whatever
//! kills it, the kernel kills everything below it.
//! Tests: `tests/it/jail/leftovers.rs`, `tests/it/jail/failing.rs`.

pub(crate) mod group;
pub(crate) mod launch;
pub(crate) mod layout;
pub(crate) mod master;
pub(crate) mod network;
pub(crate) mod stock;
pub(crate) mod zygote;

pub use launch::run as run_zone;
