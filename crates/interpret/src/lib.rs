//! The model loop: a prompt becomes code, is checked, run, looked at and repaired.
//!
//! This crate is the only holder of a provider's key. It reads no environment and no configuration:
//! whoever makes an [`Interpreter`] passes everything in.

mod budget;
mod conversation;
mod event;
mod extract;
mod feedback;
mod interpreter;
pub mod model;
pub mod preset;
mod runner;
mod secret;
mod work;

pub use budget::{Budget, Ledger, Spending, Spent};
pub use event::{EVENTS_MAX, Event, Voice};
pub use extract::{Extracted, extract};
pub use interpreter::{
    ANY_MODEL, Answered, Ask, InterpretError, InterpretOptions, Interpreter, Talk,
};
pub use runner::{OutputFile, Ran, Runner};
pub use secret::Secret;
pub use work::{Approver, Attempt, Consent, Ending, Usage};

/// The tool with which a model runs code in the shape `agent`.
pub const EXECUTE_PYTHON: &str = "execute_python";
