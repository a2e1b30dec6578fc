//! The service for files and commands: its routes, and the form of errors of each.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::{Router, middleware, routing};

use super::access::is_there;
use super::error::{E2bResult, ErrorShape};
use super::{entries, files, filesystem, process};
use crate::app::App;
use crate::http::dialect::render_errors;

pub(super) fn routes() -> Router<App> {
    let plain = Router::new()
        .route("/health", routing::get(health))
        .route("/files", routing::get(files::download).post(files::upload))
        .layer(middleware::from_fn_with_state(ErrorShape::Number, render_errors::<ErrorShape>));
    plain.merge(calls()).merge(streams())
}

fn calls() -> Router<App> {
    Router::new()
        .route("/process.Process/List", routing::post(process::list))
        .route("/process.Process/SendInput", routing::post(process::send_input))
        .route("/process.Process/SendSignal", routing::post(process::send_signal))
        .route("/process.Process/CloseStdin", routing::post(process::close_stdin))
        .route("/process.Process/Update", routing::post(process::update))
        .route("/filesystem.Filesystem/Stat", routing::post(entries::stat))
        .route("/filesystem.Filesystem/ListDir", routing::post(entries::list))
        .route("/filesystem.Filesystem/MakeDir", routing::post(filesystem::make_directory))
        .route("/filesystem.Filesystem/Move", routing::post(filesystem::rename))
        .route("/filesystem.Filesystem/Remove", routing::post(filesystem::remove))
        .route("/filesystem.Filesystem/CreateWatcher", routing::post(filesystem::create_watcher))
        .route("/filesystem.Filesystem/GetWatcherEvents", routing::post(filesystem::events))
        .route("/filesystem.Filesystem/RemoveWatcher", routing::post(filesystem::remove_watcher))
        .layer(middleware::from_fn_with_state(ErrorShape::Call, render_errors::<ErrorShape>))
}

fn streams() -> Router<App> {
    Router::new()
        .route("/process.Process/Start", routing::post(process::start))
        .route("/process.Process/Connect", routing::post(process::connect))
        .route("/process.Process/StreamInput", routing::post(process::stream_input))
        .route("/filesystem.Filesystem/WatchDir", routing::post(filesystem::watch))
        .layer(middleware::from_fn_with_state(ErrorShape::Stream, render_errors::<ErrorShape>))
}

/// Reports whether the sandbox is live. Clients ask after a connection broke.
async fn health(State(app): State<App>, headers: HeaderMap) -> E2bResult {
    is_there(&app, &headers)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
