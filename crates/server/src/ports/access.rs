//! Who may reach a port under a host name of its own or by headers: holders of the owner's key, of a
//! link or of a token, or every client where the sandbox says so.
//!
//! A link opened in a browser becomes a cookie of that one host. Pages of other sandboxes are of the
//! same site, so that the browser sends the cookie with their requests, too: only requests of the
//! port's own pages, and visits, are let through by it.

#[cfg(test)]
mod tests;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use silica_sessions::Audience;
use silica_store::Timestamp;

use super::{Shown, Target};
use crate::app::App;
use crate::http::auth;
use crate::http::problem::{Code, Problem};
use crate::links::{PortLink, Purpose};

/// The path below which a link is opened, on the host of its port.
pub(crate) const OPEN: &str = "/.silica/open/";

/// The cookie of an opened link, over TLS and without it. Under the first name a browser takes a
/// cookie of this very host only (RFC 6265bis, section 4.1.3.2).
const COOKIE_SECURE: &str = "__Host-silica-port";
const COOKIE_PLAIN: &str = "silica-port";

/// The header with the token of a sandbox, as E2B's clients send it.
const TRAFFIC_TOKEN: &str = "e2b-traffic-access-token";

/// Returns whether a cookie is this server's, whatever its case.
pub(super) fn is_own_cookie(name: &[u8]) -> bool {
    [COOKIE_SECURE, COOKIE_PLAIN].iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// Returns what a client has shown to reach a port, or why it may not. Counts its request for the
/// owner of the sandbox.
pub(crate) async fn authorize(app: &App, parts: &Parts, target: &Target) -> Result<Shown, Problem> {
    let session = &target.session;
    let is_public = session.exposure().audience() == Audience::Public;
    if is_public || has_token(app, &parts.headers, target) {
        admit(app, parts, target).await?;
        return Ok(Shown::NoKey);
    }
    if opened_link(app, &parts.headers, target).is_some() {
        check_page(parts)?;
        admit(app, parts, target).await?;
        return Ok(Shown::NoKey);
    }
    let caller = auth::authenticate(app, parts).await?;
    if caller.tenant != *session.tenant() {
        let words = format!("there is no sandbox {}", session.id());
        return Err(Problem::new(Code::SandboxNotFound, words));
    }
    Ok(Shown::Key)
}

/// Counts a request for the sandbox's owner, whose key must not be revoked.
pub(crate) async fn admit(app: &App, parts: &Parts, target: &Target) -> Result<(), Problem> {
    let tenant = target.session.tenant();
    if !app.sessions.keys().is_active(tenant)? {
        let words = "the key of this sandbox's owner was revoked";
        return Err(Problem::new(Code::Unauthorized, words));
    }
    auth::admit(app, &parts.extensions, tenant).await
}

fn has_token(app: &App, headers: &HeaderMap, target: &Target) -> bool {
    let shown = headers.get(TRAFFIC_TOKEN).and_then(|value| value.to_str().ok());
    let sandbox = target.session.id().as_str();
    shown.is_some_and(|shown| app.link_key.is_token(Purpose::Interpreter, sandbox, shown))
}

/// Returns the link in a cookie, if it is good for this port.
fn opened_link(app: &App, headers: &HeaderMap, target: &Target) -> Option<PortLink> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(name, token)| {
        is_own_cookie(name.as_bytes()).then(|| link(app, token, target)).flatten()
    })
}

/// Returns the link of a token, if it is good for this port.
fn link(app: &App, token: &str, target: &Target) -> Option<PortLink> {
    let link = app.link_key.open_port(token, Timestamp::now())?;
    let is_meant = link.sandbox == target.session.id().as_str()
        && link.port == target.port
        && link.tenant == target.session.tenant().as_str();
    is_meant.then_some(link)
}

/// Answers the visit of a link: the browser gets a cookie and goes to the page.
pub(crate) async fn open(
    app: &App,
    parts: &Parts,
    target: &Target,
    token: &str,
) -> Result<Response, Problem> {
    let invalid = || Problem::new(Code::LinkInvalid, "this link is not valid, or not any more");
    let link = link(app, token, target).ok_or_else(invalid)?;
    admit(app, parts, target).await?;
    let seconds = (link.expires - Timestamp::now().as_micros()).max(0) / 1_000_000;
    let is_secure = app.options.public_url.starts_with("https:");
    let (name, secure) = if is_secure { (COOKIE_SECURE, "; Secure") } else { (COOKIE_PLAIN, "") };
    let cookie =
        format!("{name}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    let headers = [
        (header::SET_COOKIE, HeaderValue::try_from(cookie).map_err(|_| invalid())?),
        (header::LOCATION, HeaderValue::try_from(link.path).map_err(|_| invalid())?),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// Refuses requests that a page of another origin makes with the cookie of this one.
fn check_page(parts: &Parts) -> Result<(), Problem> {
    if is_own_page(&parts.method, &parts.headers) {
        return Ok(());
    }
    let words = "a page of another origin may not use this port";
    Err(Problem::new(Code::WrongOrigin, words))
}

fn is_own_page(method: &Method, headers: &HeaderMap) -> bool {
    let value = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    if let Some(origin) = value("origin") {
        let host = value("host").unwrap_or_default();
        let of_origin = [&b"http://"[..], b"https://"].into_iter();
        let mut of_origin = of_origin.filter_map(|scheme| origin.strip_prefix(scheme));
        if !of_origin.any(|origin| origin.eq_ignore_ascii_case(host)) {
            return false;
        }
    }
    let is_visit = matches!(*method, Method::GET | Method::HEAD)
        && value("sec-fetch-mode") == Some(b"navigate")
        && value("sec-fetch-dest") == Some(b"document");
    // Browsers that send no such header send an `Origin` wherever a page could do harm.
    matches!(value("sec-fetch-site"), None | Some(b"same-origin" | b"none")) || is_visit
}
