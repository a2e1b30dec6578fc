//! Linux confinement: zone, enclosure, enter. Knows nothing of Python, HTTP or what files mean.
//!
//! The engine holds a [`client::Zone`]; behind it stands a zone master process ([`zone`]) that makes
//! enclosures ([`enclosure`]) and puts processes into them through the gate. See `ARCHITECTURE.md`.
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

/// The freestanding gate, to be placed beside the guest's code.
pub const GATE_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gate.so"));
