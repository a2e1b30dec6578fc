//! For admin keys: every live sandbox of this server.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use silica_sessions::{CommandPhase, Session};
use silica_store::Timestamp;

use super::wire::Moment;
use super::wire::account::budget_uses;
use super::wire::sandbox::{WatchedSandbox, WatchedSandboxList};
use crate::app::App;
use crate::http::auth::Admin;
use crate::http::json::Answer;
use crate::http::problem::Problem;

/// How many sandboxes are measured at the same time.
const ASKED_AT_ONCE_MAX: usize = 16;

/// `GET /v1/admin/sandboxes`
pub(crate) async fn sandboxes(State(app): State<App>, _: Admin) -> Result<Response, Problem> {
    let keys = app.sessions.keys().list().await?;
    let names: BTreeMap<&str, &str> =
        keys.iter().map(|key| (key.id.as_str(), key.name.as_str())).collect();
    let mut sessions = app.sessions.all_with_single_runs();
    sessions.sort_by(|one, other| one.id().as_str().cmp(other.id().as_str()));
    let watched = futures_util::stream::iter(sessions.into_iter().map(watched))
        .buffered(ASKED_AT_ONCE_MAX)
        .collect::<Vec<(String, WatchedSandbox)>>()
        .await;
    let owned = |(owner, sandbox): (String, WatchedSandbox)| {
        let name = names.get(owner.as_str()).copied();
        sandbox.owned_by(owner, name)
    };
    let sandboxes = watched.into_iter().map(owned).collect();
    let at = Moment(Timestamp::now());
    let budgets = budget_uses(app.sessions.admission(), None);
    Ok(Answer(WatchedSandboxList { at, budgets, sandboxes }).into_response())
}

/// Returns a sandbox with its usage, and its owner.
async fn watched(session: Arc<Session>) -> (String, WatchedSandbox) {
    let commands = session.commands();
    let running = commands.iter().filter(|it| matches!(it.phase(), CommandPhase::Running)).count();
    let sandbox = WatchedSandbox::new(&session.info(), &session.usage(), running);
    (session.tenant().to_string(), sandbox)
}
