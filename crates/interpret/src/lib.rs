//! The model loop: a model writes code for a prompt; the code is checked, run, and repaired by the model.
//!
//! Code runs through the traits of [`SandboxProvider`], which the server implements. This crate is the only holder of
//! a provider's key. It reads no environment and no configuration: the caller passes everything to
//! [`PromptService::new`].

mod budget;
mod conversation;
mod event;
mod extract;
mod feedback;
pub mod model;
pub mod preset;
mod provider_key;
mod request_run;
mod runner;
mod service;

pub use budget::{DailyBudget, Ledger, Spending, Spent};
pub use event::{EVENTS_MAX, EventSink, PromptEvent};
pub use extract::{ExtractedCode, extract};
pub use provider_key::ProviderKey;
pub use request_run::{Approver, Attempt, Consent, Ending, ModelUsage};
pub use runner::{
    OutputFile, RequestSandbox, RunError, RunResult, Runner, SandboxHandle, SandboxProvider,
    WrittenFile,
};
pub use service::{
    ANY_MODEL, ConversationRef, InterpretError, InterpretOptions, PromptAnswer, PromptRequest,
    PromptService,
};

/// The tool with which a model runs code in the shape `agent`.
pub const EXECUTE_PYTHON: &str = "execute_python";
