//! What every handler shares, and the service made of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use silica_sessions::{CellObserver, Sessions};

use crate::dispatch::Dispatch;
use crate::facade;
use crate::facade::native::Native;
use crate::http::guard::GuardContext;
use crate::links::LinkKey;
use crate::metrics::Metrics;
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
    /// Inputs that clients may mount by name.
    pub inputs: BTreeMap<String, SharedInput>,
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
        sessions,
        prompts,
    };
    let context =
        GuardContext { options: Arc::clone(&app.options), metrics: Arc::clone(&app.metrics) };
    let dispatch = Dispatch::new(&app, &context, facade::all(), Arc::new(Native));
    Ok(dispatch.into_router())
}
