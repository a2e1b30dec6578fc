//! The model loop: a prompt becomes code, is checked, run, looked at and repaired.
//!
//! This crate is the only holder of a provider's key. It reads no environment and no configuration:
//! whoever asks passes everything in.

pub mod model;
mod secret;

pub use secret::Secret;

/// The tool with which a model runs code in the shape `agent`.
pub const EXECUTE_PYTHON: &str = "execute_python";
