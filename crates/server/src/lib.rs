//! HTTP in front of the sessions: the native API, who may use it, and what is measured.
//!
//! Every handler parses, calls one operation of `silica-sessions` and renders; none decides anything
//! itself. Errors leave as [`Problem`]s, and nothing of a user's code or secrets goes into the log.

mod app;
mod facade;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod http;
mod links;
mod metrics;
pub mod webhook;

pub use app::{AppOptions, SharedInput, router};
pub use axum::Router;
pub use facade::native::render::containment;
pub use facade::native::render::interpret::answered;
pub use http::listen::{ListenError, Server, Tls};
pub use http::problem::{Code, Problem};
