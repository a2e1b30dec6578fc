//! The caller of a request, by any of the ways in which clients of Jupyter show their token.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

use super::JupyterState;
use crate::app::App;
use crate::http::auth::{Caller, KeyKinds, admit, caller_of, refuse_key};
use crate::http::problem::Problem;

/// A request with a valid key.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) app: App,
    pub(super) state: Arc<JupyterState>,
    pub(super) caller: Caller,
    /// Parts of the path, by name, without the key.
    params: Vec<(String, String)>,
}

impl Visit {
    /// Returns a part of the path; empty if the route has none of that name.
    pub(super) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

impl FromRequestParts<App> for Visit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let state = parts.extensions.get::<Arc<JupyterState>>().cloned();
        let state = state.ok_or_else(|| refuse_key("missing"))?;
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|_| Problem::bad("the path is not UTF-8"))?;
        let mut params: Vec<(String, String)> =
            params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let key = params.iter().position(|(name, _)| name == "key");
        let key = key.map(|at| params.remove(at).1);
        let caller = match &key {
            Some(key) => caller_of(app, &parts.extensions, key, KeyKinds::Jupyter).await?,
            None => shown(app, &state, parts).await?,
        };
        tracing::Span::current().record("tenant", caller.tenant.as_str());
        Ok(Self { app: app.clone(), state, caller, params })
    }
}

/// Returns the holder of the key in a header, the query or a cookie.
async fn shown(app: &App, state: &JupyterState, parts: &Parts) -> Result<Caller, Problem> {
    let query = parts.uri.query().unwrap_or_default();
    if let Some(key) = in_header(&parts.headers).or_else(|| in_query(query)) {
        return caller_of(app, &parts.extensions, &key, KeyKinds::GeneralOrJupyter).await;
    }
    let tenant = state.logins.find(&parts.headers).ok_or_else(|| refuse_key("missing"))?;
    if !app.sessions.keys().is_active(&tenant)? {
        return Err(refuse_key("revoked"));
    }
    admit(app, &parts.extensions, &tenant).await?;
    Ok(Caller { tenant, admin: false, approve: false })
}

/// Returns the key in `Authorization`, as `token` or `Bearer`, or in `X-API-Key`.
fn in_header(headers: &HeaderMap) -> Option<String> {
    if let Some(key) = headers.get("x-api-key").and_then(|value| value.to_str().ok()) {
        return Some(key.to_owned());
    }
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let is_known = ["token", "bearer"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_known.then(|| token.trim().to_owned())
}

/// Returns the key in the query.
fn in_query(query: &str) -> Option<String> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).ok()?;
    let (_, key) = pairs.into_iter().find(|(name, _)| name == "token")?;
    (!key.is_empty()).then_some(key)
}
