//! Authentication: a key for the control plane, a token or a signature for the services inside a
//! sandbox.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use silica_sessions::Session;
use silica_store::Timestamp;

use super::SANDBOX_ID;
use super::error::E2bError;
use crate::app::App;
use crate::http::auth::{self, Caller};
use crate::http::json::Json;
use crate::http::session::{self, Found, Requester};
use crate::links::Purpose;

/// The user of every process in a sandbox.
const USER: &str = "user";

/// The header with the token for files and commands.
const ACCESS_TOKEN: &str = "x-access-token";
/// The header with the token for code.
const TRAFFIC_TOKEN: &str = "e2b-traffic-access-token";

/// The caller of the control plane, by its key.
pub(super) struct ControlCaller(pub(super) Caller);

impl FromRequestParts<App> for ControlCaller {
    type Rejection = E2bError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, E2bError> {
        let caller = auth::authenticate(app, parts).await?;
        tracing::Span::current().record("tenant", caller.tenant.as_str());
        Ok(Self(caller))
    }
}

/// A JSON body; fails in the form of the route.
pub(super) struct E2bJson<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for E2bJson<T> {
    type Rejection = E2bError;

    async fn from_request(request: Request, app: &App) -> Result<Self, E2bError> {
        let Json(message) = Json::from_request(request, app).await?;
        Ok(Self(message))
    }
}

/// The live sandbox of a request to its files and commands.
pub(super) struct EnvdSession(pub(super) Arc<Session>);

impl FromRequestParts<App> for EnvdSession {
    type Rejection = E2bError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, E2bError> {
        check_user(&parts.headers)?;
        let session = addressed(app, &parts.headers)?;
        let shown = header(&parts.headers, ACCESS_TOKEN).unwrap_or_default();
        if !app.link_key.is_token(Purpose::Envd, session.id().as_str(), shown) {
            return Err(E2bError::unauthorized("a valid access token is needed"));
        }
        admit(app, parts, &session).await?;
        Ok(Self(session))
    }
}

/// The live sandbox of a request to its interpreter.
pub(super) struct InterpreterSession(pub(super) Arc<Session>);

impl FromRequestParts<App> for InterpreterSession {
    type Rejection = E2bError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, E2bError> {
        let session = addressed(app, &parts.headers)?;
        let id = session.id().as_str();
        let holds = |name, purpose| {
            let shown = header(&parts.headers, name).unwrap_or_default();
            app.link_key.is_token(purpose, id, shown)
        };
        if !(holds(TRAFFIC_TOKEN, Purpose::Interpreter) || holds(ACCESS_TOKEN, Purpose::Envd)) {
            return Err(E2bError::unauthorized("a valid access token is needed"));
        }
        admit(app, parts, &session).await?;
        Ok(Self(session))
    }
}

pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the sandbox that a header names. Some clients name none when they access files; then the
/// token identifies it.
pub(super) fn addressed(app: &App, headers: &HeaderMap) -> Result<Arc<Session>, E2bError> {
    let Some(id) = header(headers, SANDBOX_ID) else {
        let token = header(headers, ACCESS_TOKEN).unwrap_or_default();
        let is_meant =
            |session: &Session| app.link_key.is_token(Purpose::Envd, session.id().as_str(), token);
        let unknown = || E2bError::unauthorized("the request names no sandbox and has no token");
        return session::find_by(app, is_meant).ok_or_else(unknown);
    };
    let found = session::find(app, Requester::TokenHolder, id);
    found.and_then(Found::live).ok_or_else(|| E2bError::Gone(id.to_owned()))
}

/// Checks that the sandbox exists, without authentication.
pub(super) fn is_there(app: &App, headers: &HeaderMap) -> Result<(), E2bError> {
    addressed(app, headers).map(drop)
}

/// Counts a request for the sandbox's owner, whose key must not be revoked.
async fn admit(app: &App, parts: &Parts, session: &Session) -> Result<(), E2bError> {
    let tenant = session.tenant();
    if !app.sessions.keys().is_active(tenant)? {
        return Err(E2bError::unauthorized("the key of this sandbox's owner was revoked"));
    }
    auth::admit(app, &parts.extensions, tenant).await?;
    Ok(())
}

/// Refuses user names other than the one that exists.
pub(super) fn check_user(headers: &HeaderMap) -> Result<(), E2bError> {
    let Some(basic) = header(headers, "authorization").and_then(|it| it.strip_prefix("Basic "))
    else {
        return Ok(());
    };
    let decoded = STANDARD.decode(basic.trim()).unwrap_or_default();
    let name = String::from_utf8_lossy(&decoded);
    check_username(name.split(':').next().unwrap_or_default())
}

pub(super) fn check_username(name: &str) -> Result<(), E2bError> {
    match name {
        "" | USER => Ok(()),
        name => Err(E2bError::unauthorized(format!(
            "invalid username: '{name}'; everything in a sandbox runs as '{USER}'"
        ))),
    }
}

/// The parts of a signed URL of a file.
#[derive(Debug)]
pub(super) struct Signed<'a> {
    pub(super) path: &'a str,
    pub(super) operation: &'static str,
    pub(super) username: &'a str,
    pub(super) signature: &'a str,
    /// Seconds since 1970, as text: it is part of what is signed.
    pub(super) expiration: Option<&'a str>,
}

/// Returns the sandbox that a URL was signed for. The URL has no id, so each sandbox is tried.
pub(super) async fn signed(
    app: &App,
    parts: &Parts,
    asked: &Signed<'_>,
) -> Result<Arc<Session>, E2bError> {
    check_username(asked.username)?;
    if let Some(expiration) = asked.expiration {
        let seconds: i64 = expiration
            .parse()
            .map_err(|_| E2bError::bad("signature_expiration must be a number"))?;
        if seconds.saturating_mul(1_000_000) < Timestamp::now().as_micros() {
            return Err(E2bError::unauthorized("signature is already expired"));
        }
    }
    let is_meant = |session: &Session| is_signed(app, session, asked);
    let found = match header(&parts.headers, SANDBOX_ID) {
        None => session::find_by(app, is_meant),
        Some(id) => {
            let found = session::find(app, Requester::TokenHolder, id);
            let gone = || E2bError::Gone(id.to_owned());
            found.ok_or_else(gone)?.live().filter(|session| is_meant(session))
        }
    };
    let session = found.ok_or_else(|| E2bError::unauthorized("invalid signature"))?;
    admit(app, parts, &session).await?;
    Ok(session)
}

fn is_signed(app: &App, session: &Session, asked: &Signed<'_>) -> bool {
    let token = app.link_key.token(Purpose::Envd, session.id().as_str());
    let Signed { path, operation, username, signature, expiration } = asked;
    let mut text = format!("{path}:{operation}:{username}:{token}");
    if let Some(expiration) = expiration {
        text = format!("{text}:{expiration}");
    }
    let digest = Sha256::digest(text.as_bytes());
    let Some(shown) = signature.strip_prefix("v1_") else { return false };
    // E2B's clients omit the padding.
    let shown = STANDARD_NO_PAD.decode(shown.trim_end_matches('=')).unwrap_or_default();
    shown.len() == digest.len()
        && shown.iter().zip(digest.iter()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
