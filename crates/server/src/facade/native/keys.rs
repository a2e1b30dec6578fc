//! Keys, for admins.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use silica_store::KeyId;
use silica_store::keys::{KeyName, KeyRecord, NewKey, Revocation};

use crate::app::App;
use crate::http::auth::Admin;
use crate::http::json::{Answer, Json};
use crate::http::problem::{Code, Problem};

fn render(key: &KeyRecord) -> Value {
    json!({
        "id": key.id.as_str(),
        "name": key.name,
        "admin": key.admin,
        "approve": key.approve,
        "created_at": key.created_at.to_string(),
        "revoked_at": key.revoked_at.map(|at| at.to_string()),
    })
}

/// `GET /v1/keys`
pub(crate) async fn list(State(app): State<App>, _: Admin) -> Result<Response, Problem> {
    let keys = app.sessions.store().keys().list().await?;
    let keys: Vec<_> = keys.iter().map(render).collect();
    Ok(Answer(json!({"keys": keys})).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateBody {
    name: String,
    #[serde(default)]
    admin: bool,
    #[serde(default)]
    approve: bool,
}

/// `POST /v1/keys`
pub(crate) async fn create(
    State(app): State<App>,
    _: Admin,
    Json(body): Json<CreateBody>,
) -> Result<Response, Problem> {
    let name = KeyName::new(&body.name).map_err(|error| Problem::bad(error.to_string()))?;
    let new = NewKey { name, admin: body.admin, approve: body.approve, limits: None };
    let (record, secret) = app.sessions.store().keys().create(new).await?;
    let mut key = render(&record);
    key["key"] = secret.reveal().into();
    Ok((StatusCode::CREATED, Answer(key)).into_response())
}

/// `DELETE /v1/keys/{id}`
pub(crate) async fn revoke(
    State(app): State<App>,
    _: Admin,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let missing = || Problem::new(Code::KeyNotFound, format!("there is no key {id}"));
    let id = KeyId::parse(&id).map_err(|_| missing())?;
    match app.sessions.store().keys().revoke(&id).await? {
        Revocation::Done(_) | Revocation::Before(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        Revocation::Unknown => Err(missing()),
    }
}
