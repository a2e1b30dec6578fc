//! Authentication: the key in a header becomes a caller, or the request is refused.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, header};
use silica_store::Tenant;
use silica_store::keys::KeyMatch;

use crate::app::App;
use crate::http::connection::Connection;
use crate::http::guard::LoggedKey;
use crate::http::in_flight::InFlight;
use crate::http::problem::{Code, Problem};

/// The holder of the key of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) tenant: Tenant,
    pub(crate) admin: bool,
    /// Whether it may decide on approvals.
    pub(crate) approve: bool,
}

/// A caller with an admin key.
#[derive(Clone, Debug)]
pub(crate) struct Admin;

/// Returns the key in the headers.
fn presented(headers: &HeaderMap) -> Option<&str> {
    let key = headers.get("x-api-key").and_then(|value| value.to_str().ok());
    let bearer = || {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    };
    key.or_else(bearer)
}

/// Names the key of a request in the log; the first name stays.
fn log_key(extensions: &Extensions, name: &str) {
    if let Some(LoggedKey(key)) = extensions.get::<LoggedKey>() {
        key.get_or_init(|| name.to_owned());
    }
}

/// Counts a request, its body and its connection for a key.
pub(crate) async fn admit(
    app: &App,
    extensions: &Extensions,
    tenant: &Tenant,
) -> Result<(), Problem> {
    log_key(extensions, tenant.as_str());
    let admission = app.sessions.admission();
    if let Some(connection) = extensions.get::<Arc<Connection>>() {
        connection.belongs_to(admission, tenant)?;
    }
    InFlight::of(extensions).belongs_to(admission, tenant);
    Ok(admission.request(tenant).await?)
}

/// Finds the key of a secret. One that another process has just made is found too: a request with an unknown key waits
/// until the keys may be read again.
async fn find_key(app: &App, secret: &str) -> Result<KeyMatch, Problem> {
    let asked = Instant::now();
    match app.sessions.keys().find_by_secret(secret, asked)? {
        KeyMatch::Unseen(rest) => {
            tokio::time::sleep(rest).await;
            Ok(app.sessions.keys().find_by_secret(secret, asked)?)
        }
        found => Ok(found),
    }
}

/// Refuses a request without a valid key.
pub(crate) fn refuse_key(reason: &str) -> Problem {
    tracing::info!(reason, "a request without a valid key");
    let words = "a valid key is required, in X-API-Key or Authorization: Bearer";
    Problem::new(Code::Unauthorized, words)
}

/// Which keys a request may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKinds {
    /// Those that open everything of their owner.
    General,
    /// Those and the ones for Jupyter.
    GeneralOrJupyter,
    /// Only the ones for Jupyter: where others can read it along, such as in a path.
    Jupyter,
}

impl KeyKinds {
    fn contains(self, jupyter: bool) -> bool {
        match self {
            Self::General => !jupyter,
            Self::GeneralOrJupyter => true,
            Self::Jupyter => jupyter,
        }
    }
}

/// Returns the caller of a request. Wrong, revoked and missing keys are refused alike.
pub(crate) async fn authenticate(app: &App, parts: &Parts) -> Result<Caller, Problem> {
    let key = presented(&parts.headers).ok_or_else(|| refuse_key("missing"))?;
    caller_of(app, &parts.extensions, key, KeyKinds::General).await
}

/// Returns the holder of a key that a request shows, wherever it does. Counts the request.
pub(crate) async fn caller_of(
    app: &App,
    extensions: &Extensions,
    secret: &str,
    kinds: KeyKinds,
) -> Result<Caller, Problem> {
    let record = match find_key(app, secret).await? {
        KeyMatch::Active(record) if kinds.contains(record.jupyter) => record,
        KeyMatch::Active(_) => return Err(refuse_key("of another kind")),
        KeyMatch::Revoked(_) => return Err(refuse_key("revoked")),
        KeyMatch::Unseen(_) | KeyMatch::Unknown => return Err(refuse_key("unknown")),
    };
    log_key(extensions, &record.name);
    let tenant = Tenant::from(&record.id);
    let admin = record.admin;
    let approve = record.approve || admin;
    admit(app, extensions, &tenant).await?;
    Ok(Caller { tenant, admin, approve })
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let caller = authenticate(app, parts).await?;
        tracing::Span::current().record("tenant", caller.tenant.as_str());
        Ok(caller)
    }
}

impl FromRequestParts<App> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, app).await?;
        if caller.admin {
            Ok(Self)
        } else {
            Err(Problem::new(Code::Forbidden, "only an admin key may do this"))
        }
    }
}
