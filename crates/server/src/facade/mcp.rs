//! A facade for clients of the Model Context Protocol: Streamable HTTP at `/mcp`. Decides nothing
//! itself: the tools of `silica-mcp` are requests to the native API, within the process.
//!
//! A client of a protocol version with sessions has one, which belongs to the key that opened it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde_json::json;
use silica_mcp::rmcp::transport::streamable_http_server::session::SessionManager;
use silica_mcp::rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use silica_mcp::rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use silica_mcp::{McpServer, SandboxLife};
use silica_store::Tenant;

use crate::app::App;
use crate::dispatch::{self, Facade, Mount};
use crate::facade::native::Native;
use crate::http::auth::Caller;
use crate::http::dialect::{Complete, Dialect};
use crate::http::guard::GuardContext;
use crate::http::problem::{Code, Problem};
use crate::in_process::InProcessApi;

/// The most sessions of one key. One more ends the oldest; its client opens another.
const SESSIONS_PER_KEY_MAX: usize = 64;

/// How long a session lives without a message in either direction.
const SESSION_IDLE: Duration = Duration::from_hours(1);

/// The header that names a session.
const SESSION_ID: &str = "mcp-session-id";

/// Returns the facade with the requests that it takes.
pub(crate) fn service() -> (Mount, Arc<dyn Facade>) {
    (Mount::Prefix("/mcp"), Arc::new(Mcp))
}

/// The facade.
#[derive(Clone, Copy, Debug)]
struct Mcp;

impl Dialect for Mcp {
    fn refuse(&self, problem: &Problem, _request_id: &str) -> Response {
        let (name, status) = problem.code().name_and_status();
        let error = json!({
            "code": REFUSED,
            "message": problem.detail(),
            "data": {"code": name},
        });
        let body = json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string();
        let kind = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (status, kind, body).into_response();
        if problem.code() == Code::Unauthorized {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Some(retry) = problem.retry() {
            let seconds = HeaderValue::from(retry.as_secs().max(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

/// The code of JSON-RPC for a request that the server refuses.
const REFUSED: i32 = -32000;

impl Facade for Mcp {
    fn routes(&self) -> Router<App> {
        let door = Arc::new(Door::default());
        let handler = move |State(app): State<App>, caller: Caller, request: Request| {
            let door = Arc::clone(&door);
            async move { door.serve(&app, &caller, request).await }
        };
        Router::new().route("/", any(handler))
    }
}

type Service = StreamableHttpService<McpServer<InProcessApi>, LocalSessionManager>;

/// What all requests share.
struct Door {
    /// Made with the first request, which brings the application.
    parts: OnceLock<(Service, Router)>,
    sessions: Arc<LocalSessionManager>,
    /// The sessions of each key, oldest first.
    owned: Mutex<HashMap<Tenant, Vec<String>>>,
}

impl Default for Door {
    fn default() -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_IDLE);
        Self { parts: OnceLock::new(), sessions: Arc::new(sessions), owned: Mutex::default() }
    }
}

impl Door {
    async fn serve(
        &self,
        app: &App,
        caller: &Caller,
        mut request: Request,
    ) -> Result<Response, Problem> {
        if let Some(session) = session_in(request.headers())
            && !self.owns(&caller.tenant, &session)
        {
            return Err(Problem::new(Code::NotFound, "there is no such session"));
        }
        let (service, native) = self.parts.get_or_init(|| self.parts(app));
        let api = InProcessApi::for_request(native.clone(), request.headers());
        request.extensions_mut().insert(api);
        let response = service.handle(request).await;
        if let Some(session) = session_in(response.headers()) {
            self.add(&caller.tenant, session).await;
        }
        let mut response = response.map(Body::new);
        response.extensions_mut().insert(Complete);
        Ok(response)
    }

    fn parts(&self, app: &App) -> (Service, Router) {
        let config = StreamableHttpServerConfig::default()
            // The guard has checked both.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(app.options.body_bytes_max);
        let make = || Ok(McpServer::new(SandboxLife::Request, find_api));
        let service = StreamableHttpService::new(make, Arc::clone(&self.sessions), config);
        let context =
            GuardContext { options: Arc::clone(&app.options), metrics: Arc::clone(&app.metrics) };
        (service, dispatch::one(app, &context, Arc::new(Native)))
    }

    fn owns(&self, tenant: &Tenant, session: &str) -> bool {
        let owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        owned.get(tenant).is_some_and(|sessions| sessions.iter().any(|known| known == session))
    }

    /// Notes a session of a key, forgets those that have ended, and ends the oldest beyond the bound.
    async fn add(&self, tenant: &Tenant, session: String) {
        let live = self.sessions.sessions.read().await.keys().map(ToString::to_string).collect();
        let live: HashSet<String> = live;
        let oldest = {
            let mut owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
            for sessions in owned.values_mut() {
                sessions.retain(|known| live.contains(known));
            }
            owned.retain(|_, sessions| !sessions.is_empty());
            let sessions = owned.entry(tenant.clone()).or_default();
            if !sessions.contains(&session) {
                sessions.push(session);
            }
            (sessions.len() > SESSIONS_PER_KEY_MAX).then(|| sessions.remove(0))
        };
        if let Some(oldest) = oldest {
            // An error is that it has ended.
            let _ = self.sessions.close_session(&oldest.into()).await;
        }
    }
}

/// Returns the API with the key of a request.
fn find_api(extensions: &silica_mcp::rmcp::model::Extensions) -> Option<InProcessApi> {
    extensions.get::<Parts>()?.extensions.get::<InProcessApi>().cloned()
}

fn session_in(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(SESSION_ID)?.to_str().ok()?.to_owned())
}
