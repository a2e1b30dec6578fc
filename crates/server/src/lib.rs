//! HTTP in front of the sessions: the facades, authentication, and metrics.
//!
//! `dispatch` chooses the facade of a request. A handler parses the request, calls `silica-sessions`
//! and renders the result; it decides nothing itself. Errors are
//! [`Problem`]s, and neither a user's code nor secrets go into the log.

mod app;
mod dispatch;
mod facade;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod http;
mod in_process;
mod links;
mod metrics;
mod ports;
mod prompt_sandbox;
pub mod webhook;

pub use app::{AppOptions, SharedInput, router};
pub use axum::Router;
pub use facade::native::wire::{EngineRun, check_report, interpretation, run_report};
pub use http::listen::{ListenError, Server, Tls};
pub use http::problem::{Code, Problem};
pub use http::startup::Startup;
pub use in_process::InProcessApi;
pub use prompt_sandbox::{
    ConversationSandbox, Prompt, PromptError, PromptSandbox, PromptSandboxes, Prompts,
};
