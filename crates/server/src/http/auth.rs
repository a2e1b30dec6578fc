//! Authentication: the key in a header becomes a caller, or the request is refused.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use silica_store::Tenant;
use silica_store::keys::KeyMatch;

use crate::app::App;
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

/// Returns the caller of a request. Wrong, revoked and missing keys are refused alike.
pub(crate) fn authenticate(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    let refused = |reason: &str| {
        tracing::info!(reason, "a request without a valid key");
        let words = "a valid key is required, in X-API-Key or Authorization: Bearer";
        Problem::new(Code::Unauthorized, words)
    };
    let key = presented(headers).ok_or_else(|| refused("missing"))?;
    let record = match app.sessions.keys().find_by_secret(key)? {
        KeyMatch::Active(record) => record,
        KeyMatch::Revoked(_) => return Err(refused("revoked")),
        KeyMatch::Unknown => return Err(refused("unknown")),
    };
    let tenant = Tenant::from(&record.id);
    let admin = record.admin;
    let approve = record.approve || admin;
    app.sessions.admission().request(&tenant)?;
    Ok(Caller { tenant, admin, approve })
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let caller = authenticate(app, &parts.headers)?;
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
