//! Approvals: code and connections that wait for a person, and decisions on them.

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use silica_sessions::DecisionRequest;
use silica_store::approvals::{ApprovalRecord, Scope, State as Standing};

use super::wire::approval::{Approval, ApprovalList};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::long_answer::long_answer;
use crate::http::problem::{Code, Problem};

/// The longest code in a list; longer code is only in the response for one approval.
const LISTED_CODE_BYTES_MAX: usize = 64 * 1024;

/// Renders an approval in a list.
fn listed(app: &App, record: &ApprovalRecord) -> Approval {
    let mut approval = rendered(app, record);
    if record.code.as_ref().is_some_and(|code| code.len() > LISTED_CODE_BYTES_MAX) {
        approval.code = None;
    }
    approval
}

/// Renders an approval with its code, and whether it could still run.
fn rendered(app: &App, record: &ApprovalRecord) -> Approval {
    Approval {
        summary: record.into(),
        code: record.code.clone(),
        runnable: app.sessions.review().is_runnable(record),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    state: Option<String>,
}

/// `GET /v1/approvals`: all for a key that may approve, otherwise its own.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    query: Result<Query<ListQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
    let state = match query.state.as_deref() {
        Some("all") => None,
        None => Some(Standing::Pending),
        Some(name) => Some(name.parse().map_err(|error| Problem::bad(format!("{error}")))?),
    };
    let owner = (!caller.approve).then_some(&caller.tenant);
    let records = app.sessions.review().list(state, owner).await?;
    let approvals = records.iter().map(|record| listed(&app, record)).collect();
    long_answer(&app, &caller.tenant, ApprovalList { approvals }).await
}

/// `GET /v1/approvals/{approval}`
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let record = app.sessions.review().get(&id).await?;
    if !caller.approve && record.tenant != caller.tenant {
        return Err(Problem::new(Code::ApprovalNotFound, format!("there is no approval {id}")));
    }
    Ok(Answer(rendered(&app, &record)).into_response())
}

/// A decision on an approval
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Word", extend("examples" = [{"reason": "looks good", "sha256": null}]))]
pub(crate) struct DecisionBody {
    /// The reason, for the owner and the audit log
    reason: Option<String>,
    /// The digest of the code that was reviewed; another digest is refused
    sha256: Option<String>,
    /// How far the approval of a connection reaches: this connection (the default), connections of its
    /// sandbox to this host and port, or those of all sandboxes of its key
    scope: Option<ScopeBody>,
}

/// How far the approval of a connection reaches
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum ScopeBody {
    Once,
    Sandbox,
    Key,
}

impl From<ScopeBody> for Scope {
    fn from(scope: ScopeBody) -> Self {
        match scope {
            ScopeBody::Once => Self::Once,
            ScopeBody::Sandbox => Self::Sandbox,
            ScopeBody::Key => Self::Key,
        }
    }
}

/// The longest reason.
const REASON_CHARS_MAX: usize = 1000;

fn word(caller: Caller, body: DecisionBody) -> Result<DecisionRequest, Problem> {
    if !caller.approve {
        let words = "only a key that may approve, or an admin key, may do this";
        return Err(Problem::new(Code::Forbidden, words));
    }
    let length = body.reason.as_ref().map_or(0, |reason| reason.chars().count());
    if length > REASON_CHARS_MAX {
        return Err(Problem::bad(format!(
            "reason must have at most {REASON_CHARS_MAX} characters"
        )));
    }
    let DecisionBody { reason, sha256, scope } = body;
    Ok(DecisionRequest { by: caller.tenant, reason, sha256, scope: scope.map(Scope::from) })
}

/// `POST /v1/approvals/{approval}/approve`
pub(crate) async fn approve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<DecisionBody>,
) -> Result<Response, Problem> {
    let word = word(caller, body)?;
    let admission = app.sessions.admission();
    let record = app.sessions.review().approve(admission, &id, word).await?;
    Ok(Answer(rendered(&app, &record)).into_response())
}

/// `POST /v1/approvals/{approval}/deny`
pub(crate) async fn deny(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<DecisionBody>,
) -> Result<Response, Problem> {
    let record = app.sessions.review().deny(&id, word(caller, body)?).await?;
    Ok(Answer(rendered(&app, &record)).into_response())
}
