//! Secrets of a key: stored, listed and deleted; a value never comes back.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use silica_sessions::SecretDraft;
use silica_store::secrets::{SecretTerms, SecretText};

use super::wire::network::{Secret, SecretList};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::problem::Problem;

/// A secret to be stored
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PutSecret", extend("examples" = [{
    "value": "sk-…", "hosts": ["api.openai.com"], "in": ["header"], "env": "OPENAI_API_KEY",
}]))]
pub(crate) struct SecretBody {
    /// The value, 8 to 8192 printable characters; it never comes back
    value: String,
    /// The hosts it may go to, each with `:PORT` if the port is not 443
    hosts: Vec<String>,
    /// The parts of a request in which its placeholder is replaced: `header`, `basic`, `query`, `path`,
    /// `body`; only `header` if left out
    #[serde(default, rename = "in")]
    places: Vec<String>,
    /// The variable that holds its placeholder in sandboxes that use it
    env: Option<String>,
    /// What its placeholder begins with, for libraries that check it
    prefix: Option<String>,
    /// A header that every request to its hosts gets, with nothing in the sandbox at all
    inject: Option<InjectionBody>,
}

/// The value is not for logs.
impl std::fmt::Debug for SecretBody {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SecretBody").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// A header that is set without a placeholder
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct InjectionBody {
    /// Its name
    header: String,
    /// Its value, with `{}` for the secret
    value: String,
}

/// `GET /v1/secrets`
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    let secrets = app.sessions.secrets(&caller.tenant).await?;
    let secrets = secrets.into_iter().map(Secret::from).collect();
    Ok(Answer(SecretList { secrets }).into_response())
}

/// `GET /v1/secrets/{secret}`
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let secret = app.sessions.secret(&caller.tenant, &name).await?;
    Ok(Answer(Secret::from(secret)).into_response())
}

/// `PUT /v1/secrets/{secret}`
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Json(body): Json<SecretBody>,
) -> Result<Response, Problem> {
    let SecretBody { value, hosts, places, env, prefix, inject } = body;
    let inject = inject.map(|InjectionBody { header, value }| (header, value));
    let terms = SecretTerms { hosts, places, env, prefix, inject, counts_tokens: false };
    let draft = SecretDraft { value: SecretText::new(value), terms };
    let (secret, is_new) = app.sessions.put_secret(&caller.tenant, &name, draft).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Answer(Secret::from(secret))).into_response())
}

/// `DELETE /v1/secrets/{secret}`
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    app.sessions.delete_secret(&caller.tenant, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
