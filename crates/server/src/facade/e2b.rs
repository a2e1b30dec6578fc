//! A facade for E2B's own clients, unchanged. Decides nothing itself.
//!
//! Four services of E2B share this server's one port. Requests to the services inside a sandbox name
//! its port in a header; the control plane is recognised by its paths. Each service has its own form
//! of errors (`error`).

mod access;
mod control;
mod entries;
mod envd;
mod error;
mod files;
mod filesystem;
mod frames;
mod interpreter;
mod lines;
mod network;
mod paths;
mod process;
mod sandbox;

use std::sync::Arc;

use axum::Router;
use axum::response::Response;

use crate::app::App;
use crate::dispatch::{Facade, Mount};
use crate::http::dialect::Dialect;
use crate::http::problem::Problem;
use error::{E2bError, ErrorShape};

/// The header that names the sandbox of a request.
const SANDBOX_ID: &str = "e2b-sandbox-id";
/// The header that names the port inside the sandbox.
const SANDBOX_PORT: &str = "e2b-sandbox-port";
/// The port of the service for files and commands.
const ENVD_PORT: &str = "49983";
/// The port of the service for code.
const INTERPRETER_PORT: &str = "49999";

/// Paths of requests that carry no port: the control plane's, and those of clients that reach files
/// and commands by a token alone.
const PATHS: &[&str] = &[
    "/sandboxes",
    "/v2/sandboxes",
    "/v3/templates",
    "/templates",
    "/snapshots",
    "/files",
    "/health",
    "/process.Process",
    "/filesystem.Filesystem",
];

/// One of E2B's services.
#[derive(Clone, Copy, Debug)]
enum Service {
    /// Sandboxes, and what is inside them. Clients may name a sandbox to the control plane too, so
    /// both have the same routes.
    Control,
    /// Code.
    Interpreter,
    /// Every other port of a sandbox.
    OtherPort,
}

/// Returns the services with the requests that each takes.
pub(crate) fn services() -> Vec<(Mount, Arc<dyn Facade>)> {
    let port = |value| Mount::Header { name: SANDBOX_PORT, value };
    vec![
        (port(ENVD_PORT), Arc::new(Service::Control)),
        (port(INTERPRETER_PORT), Arc::new(Service::Interpreter)),
        (Mount::AnyHeader(SANDBOX_PORT), Arc::new(Service::OtherPort)),
        (Mount::Paths(PATHS), Arc::new(Service::Control)),
    ]
}

impl Dialect for Service {
    fn refuse(&self, problem: &Problem, _request_id: &str) -> Response {
        E2bError::Problem(problem.clone()).render(ErrorShape::Number)
    }
}

impl Facade for Service {
    fn routes(&self) -> Router<App> {
        match self {
            Self::Control => control::routes().merge(envd::routes()),
            Self::Interpreter => interpreter::routes(),
            Self::OtherPort => control::ports(),
        }
    }
}

#[cfg(test)]
mod tests;
