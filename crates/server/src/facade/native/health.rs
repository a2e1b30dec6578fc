//! Liveness, readiness and metrics.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::wire::service::{Alive, Ready, Service};
use crate::app::App;
use crate::http::json::Answer;
use crate::http::problem::{Code, Problem};

/// `GET /`
pub(crate) async fn service() -> Response {
    Answer(Service::this()).into_response()
}

/// `GET /healthz`
pub(crate) async fn alive() -> Response {
    Answer(Alive { status: "ok" }).into_response()
}

/// `GET /readyz`: able to make a sandbox and to record what it does.
pub(crate) async fn ready(State(app): State<App>) -> Result<Response, Problem> {
    if !app.sessions.is_open() {
        return Err(Problem::new(Code::ShuttingDown, "the server is shutting down"));
    }
    if !app.sessions.engine().is_alive() {
        return Err(Problem::new(Code::CannotCreate, "the zone process has ended"));
    }
    app.sessions.audit().head().await?;
    let pool = app.sessions.engine().ready_count();
    Ok(Answer(Ready { status: "ok", pool }).into_response())
}

/// `GET /metrics`
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.text(&app.sessions)).into_response()
}
