//! The audit log, for owners and admins.

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use silica_store::audit::Search;
use silica_store::{SandboxId, Timestamp};

use super::wire::account::{AuditCheck, ExecutionList};
use crate::app::App;
use crate::http::auth::{Admin, Caller};
use crate::http::json::Answer;
use crate::http::long_answer::{Holding, hold, long_answer};
use crate::http::problem::Problem;

/// The most executions in one response.
const LIMIT_MAX: usize = 1000;

/// About the most bytes of the executions in one response: code is up to a mebibyte each.
const BYTES_MAX: u64 = 8 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SearchQuery {
    sandbox: Option<String>,
    outcome: Option<String>,
    text: Option<String>,
    since: Option<String>,
    until: Option<String>,
    limit: Option<usize>,
}

/// `GET /v1/audit`
pub(crate) async fn search(
    State(app): State<App>,
    caller: Caller,
    query: Result<Query<SearchQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
    let time = |text: Option<String>| -> Result<Option<Timestamp>, Problem> {
        let parse = |text: String| text.parse();
        text.map(parse).transpose().map_err(|error| Problem::bad(format!("{error}")))
    };
    let sandbox = query.sandbox.map(|id| SandboxId::parse(&id)).transpose();
    let search = Search {
        tenant: (!caller.admin).then(|| caller.tenant.clone()),
        sandbox: sandbox.map_err(|error| Problem::bad(error.to_string()))?,
        outcome: query.outcome,
        text: query.text,
        since: time(query.since)?,
        until: time(query.until)?,
        limit: Some(query.limit.unwrap_or(100).min(LIMIT_MAX)),
    };
    let permit = app.sessions.admission().search(&caller.tenant).await?;
    let found = app.sessions.audit().search_within(&search, BYTES_MAX).await?;
    let held = hold(&app, &caller.tenant, found.bytes)?;
    drop(permit);
    let value = ExecutionList::from(found);
    long_answer(&app, &caller.tenant, Holding { value, _held: held }).await
}

/// `GET /v1/audit/verify`
pub(crate) async fn verify(State(app): State<App>, _: Admin) -> Result<Response, Problem> {
    let verdict = app.sessions.audit().verify(None).await?;
    Ok(Answer(AuditCheck::from(verdict)).into_response())
}
