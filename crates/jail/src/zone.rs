//! The zone: one small process that makes and ends all enclosures of one engine.
//!
//! `launch` runs in the host's namespaces, forks the zone master into namespaces of its own and
//! then only waits; `master` is the master's loop. The master is the first process of its pid
//! namespace: when it ends, for whatever reason, the kernel kills all processes of the zone.
//!
//! Tests: `tests/it/jail/leftovers.rs`, `tests/it/jail/failing.rs`.

pub(crate) mod group;
pub(crate) mod init_pool;
pub(crate) mod launch;
pub(crate) mod layout;
pub(crate) mod master;
pub(crate) mod network;
pub(crate) mod sockets;
pub(crate) mod zygote;

pub use launch::run as run_zone;
