//! HTTP in front of the sessions: the native API, who may use it, and what is measured.
//!
//! Every handler parses, calls one operation of `silica-sessions` and renders; none decides anything
//! itself. Errors leave as [`Problem`]s, and nothing of a user's code or secrets goes into the log.

mod api;
mod app;
mod auth;
mod e2b;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gatekeeper;
mod json;
mod links;
mod listen;
mod metrics;
mod openapi;
mod problem;
mod prompt_sandbox;
mod render;
mod stream;
mod upload;
pub mod webhook;

pub use app::{AppOptions, SharedInput, router};
pub use axum::Router;
pub use listen::{ListenError, Server, Tls};
pub use problem::{Code, Problem};
pub use prompt_sandbox::{
    ConversationSandbox, Prompt, PromptError, PromptSandbox, PromptSandboxes, Prompts,
};
pub use render::containment;
pub use render::interpret::answered;
