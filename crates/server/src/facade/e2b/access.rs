//! Who may do what: a key for the control plane, a token or a signature for what is inside a sandbox.

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
use super::refusal::Refusal;
use crate::app::App;
use crate::http::auth::{self, Caller};
use crate::http::json::Json;
use crate::links::Purpose;

/// The user that everything in a sandbox runs as.
const USER: &str = "user";

/// Shows a right to files and commands.
const ACCESS_TOKEN: &str = "x-access-token";
/// Shows a right to code.
const TRAFFIC_TOKEN: &str = "e2b-traffic-access-token";

/// Whoever holds the key of a request to the control plane.
pub(super) struct Owner(pub(super) Caller);

impl FromRequestParts<App> for Owner {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let caller = auth::authenticate(app, &parts.headers)?;
        tracing::Span::current().record("tenant", caller.tenant.as_str());
        Ok(Self(caller))
    }
}

/// A JSON body.
pub(super) struct Said<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for Said<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let Json(said) = Json::from_request(request, app).await?;
        Ok(Self(said))
    }
}

/// The live sandbox of a request to its files and commands.
pub(super) struct Inside(pub(super) Arc<Session>);

impl FromRequestParts<App> for Inside {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        check_user(&parts.headers)?;
        let session = addressed(app, &parts.headers)?;
        let shown = header(&parts.headers, ACCESS_TOKEN).unwrap_or_default();
        if !app.link_key.is_token(Purpose::Inside, session.id().as_str(), shown) {
            return Err(Refusal::unauthorized("a valid access token is needed"));
        }
        admit(app, &session)?;
        Ok(Self(session))
    }
}

/// The live sandbox of a request to its interpreter.
pub(super) struct Coding(pub(super) Arc<Session>);

impl FromRequestParts<App> for Coding {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let session = addressed(app, &parts.headers)?;
        let id = session.id().as_str();
        let holds = |name, purpose| {
            let shown = header(&parts.headers, name).unwrap_or_default();
            app.link_key.is_token(purpose, id, shown)
        };
        if !(holds(TRAFFIC_TOKEN, Purpose::Code) || holds(ACCESS_TOKEN, Purpose::Inside)) {
            return Err(Refusal::unauthorized("a valid access token is needed"));
        }
        admit(app, &session)?;
        Ok(Self(session))
    }
}

pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The sandbox that a header names. Some clients name none with their files; then the token tells.
fn addressed(app: &App, headers: &HeaderMap) -> Result<Arc<Session>, Refusal> {
    let Some(id) = header(headers, SANDBOX_ID) else {
        let token = header(headers, ACCESS_TOKEN).unwrap_or_default();
        let theirs = |session: &Arc<Session>| {
            !session.is_single()
                && app.link_key.is_token(Purpose::Inside, session.id().as_str(), token)
        };
        let found = app.sessions.all().into_iter().find(theirs);
        let unknown = || Refusal::unauthorized("no sandbox is named, and no token of one is shown");
        return found.filter(is_live).ok_or_else(unknown);
    };
    let found = app.sessions.find_for_anybody(id);
    found.filter(is_live).ok_or_else(|| Refusal::Gone(id.to_owned()))
}

fn is_live(session: &Arc<Session>) -> bool {
    session.end_reason().is_none()
}

/// Whether a sandbox is there, without any right to it.
pub(super) fn is_there(app: &App, headers: &HeaderMap) -> Result<(), Refusal> {
    addressed(app, headers).map(drop)
}

/// Counts a request for the sandbox's owner, whose key must still be good.
fn admit(app: &App, session: &Session) -> Result<(), Refusal> {
    let tenant = session.tenant();
    if !app.sessions.store().keys().is_active(tenant)? {
        return Err(Refusal::unauthorized("the key of this sandbox's owner was revoked"));
    }
    app.sessions.admission().request(tenant)?;
    Ok(())
}

/// Refuses to act as anybody but the one user there is.
pub(super) fn check_user(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(basic) = header(headers, "authorization").and_then(|it| it.strip_prefix("Basic "))
    else {
        return Ok(());
    };
    let decoded = STANDARD.decode(basic.trim()).unwrap_or_default();
    let name = String::from_utf8_lossy(&decoded);
    check_username(name.split(':').next().unwrap_or_default())
}

pub(super) fn check_username(name: &str) -> Result<(), Refusal> {
    match name {
        "" | USER => Ok(()),
        name => Err(Refusal::unauthorized(format!(
            "invalid username: '{name}'; everything in a sandbox runs as '{USER}'"
        ))),
    }
}

/// What a signed address of a file says.
#[derive(Debug)]
pub(super) struct Signed<'a> {
    pub(super) path: &'a str,
    pub(super) operation: &'static str,
    pub(super) username: &'a str,
    pub(super) signature: &'a str,
    /// Seconds since 1970, as it was written.
    pub(super) expiration: Option<&'a str>,
}

/// The sandbox that an address was signed for. Its id is not in the address, so each is tried.
pub(super) fn signed(
    app: &App,
    headers: &HeaderMap,
    asked: &Signed<'_>,
) -> Result<Arc<Session>, Refusal> {
    check_username(asked.username)?;
    if let Some(expiration) = asked.expiration {
        let seconds: i64 =
            expiration.parse().map_err(|_| Refusal::bad("signature_expiration is no number"))?;
        if seconds.saturating_mul(1_000_000) < Timestamp::now().as_micros() {
            return Err(Refusal::unauthorized("signature is already expired"));
        }
    }
    let named = header(headers, SANDBOX_ID);
    let candidates = match named {
        Some(id) => app.sessions.find_for_anybody(id).into_iter().collect(),
        None => app.sessions.all(),
    };
    if let (Some(id), true) = (named, candidates.is_empty()) {
        return Err(Refusal::Gone(id.to_owned()));
    }
    let session = candidates
        .into_iter()
        .find(|session| !session.is_single() && is_live(session) && is_signed(app, session, asked))
        .ok_or_else(|| Refusal::unauthorized("invalid signature"))?;
    admit(app, &session)?;
    Ok(session)
}

fn is_signed(app: &App, session: &Session, asked: &Signed<'_>) -> bool {
    let token = app.link_key.token(Purpose::Inside, session.id().as_str());
    let Signed { path, operation, username, signature, expiration } = asked;
    let mut text = format!("{path}:{operation}:{username}:{token}");
    if let Some(expiration) = expiration {
        text = format!("{text}:{expiration}");
    }
    let digest = Sha256::digest(text.as_bytes());
    let Some(shown) = signature.strip_prefix("v1_") else { return false };
    // They leave the padding away; a client that does not is as good.
    let shown = STANDARD_NO_PAD.decode(shown.trim_end_matches('=')).unwrap_or_default();
    shown.len() == digest.len()
        && shown.iter().zip(digest.iter()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
