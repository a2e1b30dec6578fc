//! What every handler shares, and the service made of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use silica_domain::NetworkMode;
use silica_sessions::{CellObserver, Sessions};

use crate::dispatch::Dispatch;
use crate::facade;
use crate::facade::native::Native;
use crate::http::guard::GuardContext;
use crate::links::LinkKey;
use crate::metrics::Metrics;
use crate::ports::KeptConnections;
use crate::ports::domain::PortDomain;
use crate::prompt_sandbox::Prompts;

/// A file or directory of the host that clients may mount by name.
pub type SharedInput = PathBuf;

/// The operator's settings of the HTTP side.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// The largest JSON body, in bytes.
    pub body_bytes_max: usize,
    /// Origins of web pages that may use this server.
    pub allowed_origins: Vec<String>,
    /// Host names that requests may carry; every one if the list is empty.
    pub allowed_hosts: Vec<String>,
    /// The base URL of this server in links.
    pub public_url: String,
    /// The domain below which ports of sandboxes have host names.
    pub ports_domain: Option<String>,
    /// Inputs that clients may mount by name.
    pub inputs: BTreeMap<String, SharedInput>,
    /// The network of a sandbox of E2B's clients whose request does not speak of one.
    pub e2b_network: NetworkMode,
    /// The templates that sandboxes may start from.
    pub templates: Vec<serde_json::Value>,
}

/// What every handler shares.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) prompts: Arc<Prompts>,
    pub(crate) options: Arc<AppOptions>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) link_key: Arc<LinkKey>,
    pub(crate) kept_connections: Arc<KeptConnections>,
}

impl App {
    /// Returns the domain below which ports of sandboxes have host names.
    pub(crate) fn port_domain(&self) -> Option<PortDomain> {
        self.options.ports_domain.as_deref().map(PortDomain::new)
    }

    /// Returns that domain with the port of this server, as clients append it to `PORT-SANDBOX.`.
    pub(crate) fn port_authority(&self) -> Option<String> {
        let (_, rest) = self.options.public_url.split_once("://")?;
        let authority = rest.split('/').next().unwrap_or_default();
        Some(format!("{}{}", self.port_domain()?.name(), port_suffix(authority)))
    }

    /// Returns where browsers find a port, without a path: `None` if ports have no host names.
    pub(crate) fn port_origin(&self, port: u16, sandbox: &str) -> Option<String> {
        let (scheme, rest) = self.options.public_url.split_once("://")?;
        let authority = rest.split('/').next().unwrap_or_default();
        let host = self.port_domain()?.host(port, sandbox);
        Some(format!("{scheme}://{host}{}", port_suffix(authority)))
    }
}

/// Returns the port of an authority with its colon; empty if there is none.
pub(crate) fn port_suffix(authority: &str) -> &str {
    // The colons of an IPv6 address are in brackets.
    let after_host = authority.rfind(']').map_or(0, |at| at + 1);
    authority[after_host..].find(':').map_or("", |at| &authority[after_host + at..])
}

impl FromRef<App> for Arc<Sessions> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.sessions)
    }
}

/// Builds the whole service: every facade behind one dispatcher.
pub fn router(
    sessions: Arc<Sessions>,
    prompts: Arc<Prompts>,
    options: AppOptions,
) -> std::io::Result<Router> {
    let metrics = Arc::new(Metrics::new());
    sessions.statistics().observe(Arc::clone(&metrics) as Arc<dyn CellObserver>);
    let app = App {
        metrics,
        link_key: Arc::new(LinkKey::random()?),
        options: Arc::new(options),
        kept_connections: Arc::default(),
        sessions,
        prompts,
    };
    let context =
        GuardContext { options: Arc::clone(&app.options), metrics: Arc::clone(&app.metrics) };
    let dispatch = Dispatch::new(&app, &context, facade::all(app.port_domain()), Arc::new(Native));
    Ok(dispatch.into_router())
}
