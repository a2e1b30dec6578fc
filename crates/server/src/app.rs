//! The routes, and what every handler shares.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::FromRef;
use axum::{Router, routing};
use silica_interpret::Interpreter;
use silica_sessions::{Observer, Sessions};

use crate::facade::e2b;
use crate::facade::native::{
    admin, approvals, audit, cells, commands, docs, files, health, interpret, kernels, keys, run,
    sandboxes, stats, templates,
};
use crate::http::guard;
use crate::http::problem::{Code, Problem};
use crate::links::LinkKey;
use crate::metrics::Metrics;

/// Something of the host that clients may mount by name.
pub type SharedInput = PathBuf;

/// What the operator decides about the HTTP side.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// The most a JSON body may hold.
    pub body_bytes_max: usize,
    /// Origins of web pages that may use this server.
    pub allowed_origins: Vec<String>,
    /// Names under which this server may be addressed; any if there are none.
    pub allowed_hosts: Vec<String>,
    /// Where clients find this server, for links.
    pub public_url: String,
    /// What clients may mount by name.
    pub inputs: BTreeMap<String, SharedInput>,
    /// The templates on offer.
    pub templates: Vec<serde_json::Value>,
}

/// What every handler shares.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) interpreter: Arc<Interpreter>,
    pub(crate) options: Arc<AppOptions>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) link_key: Arc<LinkKey>,
}

impl FromRef<App> for Arc<Sessions> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.sessions)
    }
}

/// The whole service.
pub fn router(
    sessions: Arc<Sessions>,
    interpreter: Arc<Interpreter>,
    options: AppOptions,
) -> std::io::Result<Router> {
    let metrics = Arc::new(Metrics::new());
    sessions.numbers().observe(Arc::clone(&metrics) as Arc<dyn Observer>);
    let app = App {
        metrics,
        link_key: Arc::new(LinkKey::random()?),
        options: Arc::new(options),
        sessions,
        interpreter,
    };
    let guarded = |routes: Router<App>| {
        routes
            .layer(axum::middleware::from_fn_with_state(app.clone(), guard::guard))
            .with_state(app.clone())
    };
    let plain = routes()
        .fallback(|| async {
            Problem::new(
                Code::NotFound,
                "there is nothing at this address; what there is stands at /docs",
            )
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(Code::MethodNotAllowed, "this address does not understand that method")
        })
        .merge(e2b::routes());
    Ok(e2b::beside(guarded(plain), guarded))
}

/// The router and the list of what it serves, from one table.
macro_rules! routes {
    ($($method:ident $path:literal => $handler:path;)*) => {
        /// The method and the path of everything that is served; the OpenAPI document is held to it.
        #[cfg(test)]
        pub(crate) const ROUTES: &[(&str, &str)] = &[$((stringify!($method), $path),)*];

        fn routes() -> Router<App> {
            Router::new()$(.route($path, routing::$method($handler)))*
        }
    };
}

routes! {
    get "/healthz" => health::alive;
    get "/readyz" => health::ready;
    get "/metrics" => health::metrics;
    get "/openapi.json" => docs::document;
    get "/docs" => docs::page;

    post "/v1/run" => run::run;
    post "/interpret" => interpret::simple;
    post "/v1/interpret" => interpret::interpret;

    get "/v1/sandboxes" => sandboxes::list;
    post "/v1/sandboxes" => sandboxes::create;
    get "/v1/sandboxes/{sandbox}" => sandboxes::get;
    delete "/v1/sandboxes/{sandbox}" => sandboxes::delete;
    post "/v1/sandboxes/{sandbox}/extend" => sandboxes::extend;
    get "/v1/sandboxes/{sandbox}/usage" => sandboxes::usage;

    get "/v1/sandboxes/{sandbox}/kernels" => kernels::list;
    post "/v1/sandboxes/{sandbox}/kernels" => kernels::create;
    get "/v1/sandboxes/{sandbox}/kernels/{kernel}" => kernels::get;
    delete "/v1/sandboxes/{sandbox}/kernels/{kernel}" => kernels::delete;
    post "/v1/sandboxes/{sandbox}/kernels/{kernel}/interrupt" => kernels::interrupt;
    post "/v1/sandboxes/{sandbox}/kernels/{kernel}/restart" => kernels::restart;

    get "/v1/sandboxes/{sandbox}/cells" => cells::list;
    post "/v1/sandboxes/{sandbox}/cells" => cells::create;
    get "/v1/sandboxes/{sandbox}/cells/{cell}" => cells::get;
    get "/v1/sandboxes/{sandbox}/cells/{cell}/events" => cells::events;
    post "/v1/sandboxes/{sandbox}/cells/{cell}/interrupt" => cells::interrupt;
    post "/v1/sandboxes/{sandbox}/cells/{cell}/extend" => cells::extend;

    get "/v1/sandboxes/{sandbox}/commands" => commands::list;
    post "/v1/sandboxes/{sandbox}/commands" => commands::create;
    get "/v1/sandboxes/{sandbox}/commands/{command}" => commands::get;
    get "/v1/sandboxes/{sandbox}/commands/{command}/events" => commands::events;
    post "/v1/sandboxes/{sandbox}/commands/{command}/stdin" => commands::stdin;
    post "/v1/sandboxes/{sandbox}/commands/{command}/signal" => commands::signal;
    post "/v1/sandboxes/{sandbox}/commands/{command}/resize" => commands::resize;

    get "/v1/sandboxes/{sandbox}/files" => files::list;
    delete "/v1/sandboxes/{sandbox}/files" => files::remove;
    get "/v1/sandboxes/{sandbox}/files/stat" => files::stat;
    get "/v1/sandboxes/{sandbox}/files/content" => files::download;
    put "/v1/sandboxes/{sandbox}/files/content" => files::upload;
    post "/v1/sandboxes/{sandbox}/files/directory" => files::make_directory;
    post "/v1/sandboxes/{sandbox}/files/move" => files::rename;
    get "/v1/sandboxes/{sandbox}/files/archive" => files::archive;
    put "/v1/sandboxes/{sandbox}/files/archive" => files::extract;
    post "/v1/sandboxes/{sandbox}/files/link" => files::link;
    get "/v1/links/{token}" => files::get_link;
    put "/v1/links/{token}" => files::put_link;

    get "/v1/approvals" => approvals::list;
    get "/v1/approvals/{approval}" => approvals::get;
    post "/v1/approvals/{approval}/approve" => approvals::approve;
    post "/v1/approvals/{approval}/deny" => approvals::deny;

    get "/v1/templates" => templates::list;
    get "/v1/templates/{name}" => templates::get;
    get "/v1/stats" => stats::stats;
    get "/v1/audit" => audit::search;

    get "/v1/audit/verify" => audit::verify;
    get "/v1/keys" => keys::list;
    post "/v1/keys" => keys::create;
    delete "/v1/keys/{id}" => keys::revoke;
    get "/v1/admin/sandboxes" => admin::sandboxes;
}
