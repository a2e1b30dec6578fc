//! Servers inside sandboxes, for clients outside: a reverse proxy for HTTP/1.1, streams and WebSocket.
//!
//! A request is rebuilt from checked parts and never copied, and so is the response: whatever the
//! server in the sandbox sends is hostile. Nothing is buffered beyond what `hyper` reads ahead. What a
//! request may hold, and for how long, is bounded here; who may make one is decided in `access`.
//!
//! Tests: `tests/it/server/ports.rs`.

pub(crate) mod access;
mod body;
pub(crate) mod domain;
mod exchange;
mod headers;
mod kept;
mod tunnel;

use std::sync::Arc;

use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use silica_sessions::Session;

pub(crate) use exchange::forward;
pub(crate) use kept::KeptConnections;

/// A port of a sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) session: Arc<Session>,
    pub(crate) port: u16,
}

/// How the client addresses the port, which decides what a response may do to a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Below a path of the API.
    Path {
        /// What comes before the path that the server in the sandbox sees.
        prefix: String,
    },
    /// Below a path of the API that is secret, since it contains a link.
    Link { prefix: String },
    /// By headers of E2B, at any path.
    Header,
    /// By a host name of the port's own: an origin that nothing else has.
    Host,
}

/// What a client showed to be let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The key of the sandbox's owner.
    Key,
    /// A link or a token, or nothing where nothing is needed.
    NoKey,
}

/// A request to a server in a sandbox, from a client that may make it.
#[derive(Debug)]
pub(crate) struct PortRequest {
    pub(crate) target: Target,
    pub(crate) form: Form,
    pub(crate) shown: Shown,
    /// What the server in the sandbox is asked for.
    pub(crate) path: PathAndQuery,
    pub(crate) request: Request,
}

/// Marks a response of a server in a sandbox under a host of its own: the guard adds no header that
/// means something to a browser.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreign;

/// Splits a path after so many segments; what follows is `/` if there is nothing.
pub(crate) fn split_path(path: &str, segments: usize) -> (&str, &str) {
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    match slashes.nth(segments) {
        Some(at) => path.split_at(at),
        None => (path, ""),
    }
}

/// Returns whether a path of the API is passed on to a sandbox. It must reach it as it is.
pub(crate) fn is_passed_on(path: &str) -> bool {
    let mut segments = path.split('/').skip(1);
    match (segments.next(), segments.next()) {
        (Some("v1"), Some("ports")) => true,
        (Some("v1"), Some("sandboxes")) => segments.nth(1) == Some("ports"),
        _ => false,
    }
}

/// Returns what a server in a sandbox is asked for: a path, which is `/` if empty, and the query.
pub(crate) fn inner_path(path: &str, query: Option<&str>) -> Option<PathAndQuery> {
    let path = if path.is_empty() { "/" } else { path };
    let text = match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    PathAndQuery::try_from(text).ok()
}

#[cfg(test)]
mod tests;
