//! Approvals: what waits for a person, and their word on it.

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use silica_sessions::Word;
use silica_store::approvals::{ApprovalRecord, State as Standing};

use crate::app::App;
use crate::facade::native::render;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::{Code, Problem};

/// The longest code that a list shows; longer code is shown one by one.
const LISTED_CODE_BYTES_MAX: usize = 64 * 1024;

/// An approval as a list shows it.
fn listed(app: &App, record: &ApprovalRecord) -> Value {
    let mut value = whole(app, record);
    if record.code.as_ref().is_some_and(|code| code.len() > LISTED_CODE_BYTES_MAX) {
        value["code"] = Value::Null;
    }
    value
}

/// An approval with its code, and whether there is still something that could run.
fn whole(app: &App, record: &ApprovalRecord) -> Value {
    let mut value = render::approval_record(record);
    value["code"] = record.code.clone().into();
    value["runnable"] = app.sessions.review().is_runnable(record).into();
    value
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    state: Option<String>,
}

/// `GET /v1/approvals`: everybody's for those who may decide, otherwise one's own.
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
    let approvals: Vec<Value> = records.iter().map(|record| listed(&app, record)).collect();
    Ok(Answer(json!({"approvals": approvals})).into_response())
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
    Ok(Answer(whole(&app, &record)).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WordBody {
    reason: Option<String>,
    sha256: Option<String>,
}

/// The longest reason.
const REASON_CHARS_MAX: usize = 1000;

fn word(caller: Caller, body: WordBody) -> Result<Word, Problem> {
    if !caller.approve {
        let words = "only a key that may approve, or an admin key, may do this";
        return Err(Problem::new(Code::Forbidden, words));
    }
    let length = body.reason.as_ref().map_or(0, |reason| reason.chars().count());
    if length > REASON_CHARS_MAX {
        return Err(Problem::bad(format!("a reason has at most {REASON_CHARS_MAX} characters")));
    }
    Ok(Word { by: caller.tenant, reason: body.reason, sha256: body.sha256 })
}

/// `POST /v1/approvals/{approval}/approve`
pub(crate) async fn approve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<WordBody>,
) -> Result<Response, Problem> {
    let word = word(caller, body)?;
    let admission = app.sessions.admission();
    let record = app.sessions.review().approve(admission, &id, word).await?;
    Ok(Answer(whole(&app, &record)).into_response())
}

/// `POST /v1/approvals/{approval}/deny`
pub(crate) async fn deny(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<WordBody>,
) -> Result<Response, Problem> {
    let record = app.sessions.review().deny(&id, word(caller, body)?).await?;
    Ok(Answer(whole(&app, &record)).into_response())
}
