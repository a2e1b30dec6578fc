//! E2B's own clients, served as they are: parses what they say, calls the sessions, renders as they
//! expect it. Decides nothing.
//!
//! Three services of theirs share our one port. The control plane is told by its paths; the other two
//! live inside their sandboxes and are told by a header that names their port. What each says when it
//! refuses has a form of its own (`refusal`).

mod access;
mod control;
mod envd;
mod files;
mod filesystem;
mod frames;
mod interpreter;
mod lent;
mod lines;
mod paths;
mod process;
mod refusal;
mod sandbox;

use std::convert::Infallible;

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::response::Response;
use tower::ServiceExt;

use crate::app::App;
use refusal::{Refusal, Shape};

/// Names the sandbox a request is for.
const SANDBOX_ID: &str = "e2b-sandbox-id";
/// Names the port inside it.
const SANDBOX_PORT: &str = "e2b-sandbox-port";
/// Where their service for files and commands listens.
const ENVD_PORT: &str = "49983";
/// Where their service for code listens.
const INTERPRETER_PORT: &str = "49999";

/// The routes that are told by their paths: the control plane, and what reaches files without naming a
/// sandbox.
pub(crate) fn routes() -> Router<App> {
    control::routes().merge(envd::routes())
}

/// Puts the routes that are told by a header beside all others.
pub(crate) fn beside(plain: Router, guarded: impl Fn(Router<App>) -> Router) -> Router {
    let doors = Doors {
        plain,
        // Some clients name a sandbox to the control plane as well.
        envd: guarded(routes().fallback(nothing_here)),
        interpreter: guarded(interpreter::routes().fallback(nothing_here)),
        closed: guarded(Router::new().fallback(control::closed_port)),
    };
    Router::new().fallback(move |request: Request| {
        let doors = doors.clone();
        async move { doors.pass(request).await }
    })
}

async fn nothing_here() -> Response {
    Refusal::missing("there is nothing at this address").render(Shape::Number)
}

#[derive(Clone)]
struct Doors {
    plain: Router,
    envd: Router,
    interpreter: Router,
    closed: Router,
}

impl Doors {
    async fn pass(&self, mut request: Request) -> Response {
        if let Some(uri) = without_double_slashes(request.uri()) {
            *request.uri_mut() = uri;
        }
        let port = request.headers().get(SANDBOX_PORT).map(|port| port.to_str().unwrap_or(""));
        let door = match port {
            None => &self.plain,
            Some(ENVD_PORT) => &self.envd,
            Some(INTERPRETER_PORT) => &self.interpreter,
            Some(_) => &self.closed,
        };
        let answer: Result<Response, Infallible> = door.clone().oneshot(request).await;
        match answer {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// An address that ends in a slash, set where theirs has none, doubles the slash of every path.
fn without_double_slashes(uri: &Uri) -> Option<Uri> {
    if !uri.path().contains("//") {
        return None;
    }
    let mut path = String::with_capacity(uri.path().len());
    for character in uri.path().chars() {
        if !(character == '/' && path.ends_with('/')) {
            path.push(character);
        }
    }
    if let Some(query) = uri.query() {
        path = format!("{path}?{query}");
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests;
