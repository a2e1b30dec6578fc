//! A facade for clients of Jupyter's server: kernels, sessions and files below `/jupyter`. Decides
//! nothing itself.
//!
//! One Jupyter kernel is one sandbox. Every route is there a second time below `/jupyter/KEY`, for clients
//! that send no key with a WebSocket; such a key opens this facade and nothing else.

mod auth;
mod channels;
mod contents;
mod execute;
pub(crate) mod framing;
mod kernel;
mod kernels;
mod login;
pub(crate) mod message;
mod notebooks;
mod requests;

use std::sync::Arc;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router, middleware, routing};
use serde_json::json;

use crate::app::App;
use crate::dispatch::{Facade, Mount};
use crate::http::dialect::{Dialect, OwnOrigin};
use crate::http::problem::{Code, Problem};
use kernels::Kernels;
use login::Logins;

/// Where the facade is.
const PREFIX: &str = "/jupyter";

/// Returns the facade with the requests that it takes.
pub(crate) fn service() -> (Mount, Arc<dyn Facade>) {
    (Mount::Prefix(PREFIX), Arc::new(Jupyter))
}

/// The facade.
#[derive(Clone, Copy, Debug)]
struct Jupyter;

/// What the handlers share.
#[derive(Debug, Default)]
pub(super) struct JupyterState {
    kernels: Kernels,
    logins: Logins,
}

impl Dialect for Jupyter {
    fn refuse(&self, problem: &Problem, _request_id: &str) -> Response {
        let (name, status) = problem.code().name_and_status();
        // Jupyter's server answers so to a request without a token.
        let status = match problem.code() {
            Code::Unauthorized => axum::http::StatusCode::FORBIDDEN,
            _ => status,
        };
        let body = json!({"message": problem.detail(), "reason": name}).to_string();
        (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }

    fn own_origin(&self) -> OwnOrigin {
        OwnOrigin::Allowed
    }
}

impl Facade for Jupyter {
    fn routes(&self) -> Router<App> {
        let routes = routes();
        Router::new()
            .nest("/{key}", routes.clone())
            .merge(routes)
            .layer(Extension(Arc::new(JupyterState::default())))
            .layer(middleware::map_response(without_referrer))
    }
}

/// Keeps a browser from telling other servers the address of a page, which may hold a key.
async fn without_referrer(mut response: Response) -> Response {
    let policy = HeaderValue::from_static("no-referrer");
    response.headers_mut().insert(header::REFERRER_POLICY, policy);
    response
}

fn routes() -> Router<App> {
    Router::new()
        .route("/", routing::get(login::home))
        .route("/login", routing::get(login::page).post(login::enter))
        .route("/api", routing::get(kernels::version))
        .route("/api/status", routing::get(kernels::status))
        .route("/api/me", routing::get(kernels::me))
        .route("/api/kernelspecs", routing::get(kernels::specs))
        .route("/api/kernelspecs/{name}", routing::get(kernels::spec))
        .route("/api/kernels", routing::get(kernels::list).post(kernels::create))
        .route("/api/kernels/{kernel}", routing::get(kernels::get).delete(kernels::delete))
        .route("/api/kernels/{kernel}/interrupt", routing::post(kernels::interrupt))
        .route("/api/kernels/{kernel}/restart", routing::post(kernels::restart))
        .route("/api/kernels/{kernel}/channels", routing::get(channels::open))
        .route("/api/sessions", routing::get(notebooks::list).post(notebooks::create))
        .route(
            "/api/sessions/{session}",
            routing::get(notebooks::get).patch(notebooks::change).delete(notebooks::delete),
        )
        .route("/api/contents", routing::get(contents::get).post(contents::create))
        .route(
            "/api/contents/{*path}",
            routing::get(contents::get)
                .post(contents::create)
                .put(contents::save)
                .patch(contents::rename)
                .delete(contents::remove),
        )
}
