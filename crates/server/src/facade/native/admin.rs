//! What only operators see: everything that lives on this server.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde_json::{Value, json};
use silica_sessions::{CommandPhase, Session};
use silica_store::Timestamp;

use crate::app::App;
use crate::facade::native::render;
use crate::http::auth::Admin;
use crate::http::json::Answer;
use crate::http::problem::Problem;

/// How many sandboxes are asked at the same time what they use.
const ASKED_AT_ONCE_MAX: usize = 16;

/// `GET /v1/admin/sandboxes`
pub(crate) async fn sandboxes(State(app): State<App>, _: Admin) -> Result<Response, Problem> {
    let keys = app.sessions.store().keys().list().await?;
    let names: BTreeMap<&str, &str> =
        keys.iter().map(|key| (key.id.as_str(), key.name.as_str())).collect();
    let mut sessions = app.sessions.all();
    sessions.sort_by(|one, other| one.id().as_str().cmp(other.id().as_str()));
    let seen = futures_util::stream::iter(sessions.into_iter().map(seen))
        .buffered(ASKED_AT_ONCE_MAX)
        .collect::<Vec<(String, Value)>>()
        .await;
    let sandboxes: Vec<Value> = seen
        .into_iter()
        .map(|(owner, mut sandbox)| {
            sandbox["owner_name"] = names.get(owner.as_str()).copied().into();
            sandbox["owner"] = owner.into();
            sandbox
        })
        .collect();
    let answer = json!({"at": Timestamp::now().to_string(), "sandboxes": sandboxes});
    Ok(Answer(answer).into_response())
}

/// A sandbox with what it uses now, and whose it is.
async fn seen(session: Arc<Session>) -> (String, Value) {
    let commands = session.commands();
    let running = |phase: &CommandPhase| matches!(phase, CommandPhase::Running);
    let mut sandbox = render::sandbox(&session.info(), None);
    sandbox["commands_running"] =
        commands.iter().filter(|command| running(&command.phase())).count().into();
    sandbox["usage"] = render::sample(&session.usage());
    (session.tenant().to_string(), sandbox)
}
