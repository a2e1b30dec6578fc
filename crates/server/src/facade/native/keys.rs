//! Keys, for admins.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use silica_sessions::KeyCeiling;
use silica_store::KeyId;
use silica_store::keys::{KeyName, NewKey, Revocation};

use super::wire::account::{Key, KeyCreated, KeyList};
use crate::app::App;
use crate::http::auth::Admin;
use crate::http::json::{Answer, Json};
use crate::http::problem::{Code, Problem};

/// `GET /v1/keys`
pub(crate) async fn list(State(app): State<App>, _: Admin) -> Result<Response, Problem> {
    let keys = app.sessions.keys().list().await?;
    let keys = keys.iter().map(Key::from).collect();
    Ok(Answer(KeyList { keys }).into_response())
}

/// A key to be created
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CreateKey", extend("examples" = [{"name": "ci", "admin": false}]))]
pub(crate) struct CreateKeyBody {
    /// Its name: 1 to 100 characters on one line
    name: String,
    /// Whether it may do everything
    #[serde(default)]
    admin: bool,
    /// Whether it may decide on approvals
    #[serde(default)]
    approve: bool,
    /// The most of the network that its sandboxes may have; what all keys may have if left out
    network: Option<KeyNetworkBody>,
}

/// The most of the network that the sandboxes of a key may have
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct KeyNetworkBody {
    /// `none`, `list` or `open`; never more than the server's `network.mode_max`
    mode: String,
    /// The rules that a sandbox may ask for, as text, if the mode is `list`
    allow: Option<Vec<String>>,
}

/// `POST /v1/keys`
pub(crate) async fn create(
    State(app): State<App>,
    _: Admin,
    Json(body): Json<CreateKeyBody>,
) -> Result<Response, Problem> {
    let name = KeyName::new(&body.name).map_err(|error| Problem::bad(error.to_string()))?;
    let ceiling = body
        .network
        .map(|network| KeyCeiling::parse(&network.mode, &network.allow.unwrap_or_default()));
    let limits = ceiling.transpose()?.map(|ceiling| ceiling.to_limits());
    let CreateKeyBody { admin, approve, .. } = body;
    let new = NewKey { name, admin, approve, jupyter: false, limits };
    let (record, secret) = app.sessions.keys().create(new).await?;
    let key = KeyCreated { record: (&record).into(), key: secret.reveal().clone() };
    Ok((StatusCode::CREATED, Answer(key)).into_response())
}

/// `DELETE /v1/keys/{id}`, answered when nothing runs for the key any more.
pub(crate) async fn revoke(
    State(app): State<App>,
    _: Admin,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let missing = || Problem::new(Code::KeyNotFound, format!("there is no key {id}"));
    let id = KeyId::parse(&id).map_err(|_| missing())?;
    match app.sessions.revoke(&id).await? {
        Revocation::Done(_) | Revocation::Before(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        Revocation::Unknown => Err(missing()),
    }
}
