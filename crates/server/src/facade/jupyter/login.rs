//! The form with which some clients exchange a key for a cookie.
//!
//! A cookie counts only with an `Origin` that the guard has let pass, or with the header that repeats the
//! token of the form: a page of another site has neither.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use silica_store::Tenant;

use super::JupyterState;
use super::auth::Visit;
use crate::app::App;
use crate::http::auth::{KeyKinds, caller_of, refuse_key};
use crate::http::in_flight::InFlight;
use crate::http::json;
use crate::http::problem::Problem;

/// The most logins that are remembered; the oldest is forgotten for a new one.
const LOGINS_MAX: usize = 1024;

/// How long a login counts.
const LOGIN_LIFE: Duration = Duration::from_hours(12);

/// The longest form.
const FORM_BYTES_MAX: usize = 16 * 1024;

/// The cookie of a login.
const COOKIE: &str = "silica_jupyter";

/// The cookie of the token that requests with a cookie repeat.
const XSRF: &str = "_xsrf";

/// The logins of a server.
#[derive(Debug, Default)]
pub(super) struct Logins(Mutex<VecDeque<Login>>);

struct Login {
    cookie: String,
    tenant: Tenant,
    since: Instant,
}

/// Omits the cookie.
impl std::fmt::Debug for Login {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Login({})", self.tenant.as_str())
    }
}

impl Logins {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Login>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, tenant: Tenant) -> String {
        let cookie = random();
        let mut logins = self.lock();
        logins.retain(|login| login.since.elapsed() < LOGIN_LIFE);
        if logins.len() >= LOGINS_MAX {
            logins.pop_front();
        }
        logins.push_back(Login { cookie: cookie.clone(), tenant, since: Instant::now() });
        cookie
    }

    /// Returns the owner of the cookie in a request that may use one.
    pub(super) fn find(&self, headers: &HeaderMap) -> Option<Tenant> {
        let shown = cookie(headers, COOKIE)?;
        let repeats = headers.get("x-xsrftoken").and_then(|value| value.to_str().ok());
        let is_repeated = repeats.is_some() && repeats == cookie(headers, XSRF).as_deref();
        if !is_repeated && !headers.contains_key(header::ORIGIN) {
            return None;
        }
        let logins = self.lock();
        let is_it = |login: &&Login| login.cookie == shown && login.since.elapsed() < LOGIN_LIFE;
        logins.iter().find(is_it).map(|login| login.tenant.clone())
    }
}

/// Returns 244 random bits as text.
fn random() -> String {
    format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs =
        values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs
        .into_iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value.trim_matches('"').to_owned())
}

fn set_cookie(response: &mut Response, name: &str, value: &str, more: &str) {
    let text = format!("{name}={value}; Path={}; SameSite=Strict{more}", super::PREFIX);
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

/// `GET /`: where a login leads to.
pub(super) async fn home(_: Visit) -> &'static str {
    "Silica serves Jupyter clients here; see docs/guides/jupyter.md\n"
}

/// `GET /login`
pub(super) async fn page() -> Response {
    let token = random();
    let form = format!(
        "<!doctype html><title>Silica</title><form method=post><input type=hidden name=_xsrf \
         value=\"{token}\"><input type=password name=password><button>Log in</button></form>"
    );
    let mut response = ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], form).into_response();
    set_cookie(&mut response, XSRF, &token, "");
    response
}

#[derive(Deserialize)]
struct LoginForm {
    #[serde(default, rename = "_xsrf")]
    xsrf: String,
    password: String,
}

/// `POST /login`
pub(super) async fn enter(
    State(app): State<App>,
    axum::Extension(state): axum::Extension<std::sync::Arc<JupyterState>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let form = json::read(body, FORM_BYTES_MAX, &InFlight::of(&parts.extensions)).await?;
    let form: LoginForm = serde_urlencoded::from_bytes(&form)
        .map_err(|_| Problem::bad("the form must have the field password"))?;
    if form.xsrf.is_empty() || cookie(&parts.headers, XSRF).as_deref() != Some(&*form.xsrf) {
        return Err(refuse_key("without the token of the form"));
    }
    let kinds = KeyKinds::GeneralOrJupyter;
    let caller = caller_of(&app, &parts.extensions, &form.password, kinds).await?;
    let cookie = state.logins.add(caller.tenant);
    let mut response = StatusCode::FOUND.into_response();
    *response.body_mut() = Body::empty();
    let home = HeaderValue::from_static("/jupyter/api/status");
    response.headers_mut().insert(header::LOCATION, home);
    set_cookie(&mut response, COOKIE, &cookie, "; HttpOnly");
    Ok(response)
}
