//! Linux confinement: zones, enclosures, and entering them. Knows nothing of Python, HTTP or the
//! meaning of files.
//!
//! The engine holds a [`client::Zone`], the socket to a zone master process ([`zone`]). The master
//! makes enclosures ([`enclosure`]) and puts processes into them through the gate. See
//! `ARCHITECTURE.md`.
//!
//! Tests: `tests/it/jail/containment.rs`, `tests/it/jail/entering.rs`.

pub mod cgroup;
pub mod client;
pub mod command;
pub mod enclosure;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod protocol;
pub mod seccomp;
mod sys;
mod zone;

pub use sys::landlock_version;
pub use zone::run_zone;

/// The freestanding build of the gate, which the engine puts beside the guest's code.
pub const GATE_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gate.so"));
