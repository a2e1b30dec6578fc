//! The native API: its routes, and one file of handlers per noun.

pub(crate) mod admin;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod branching;
pub(crate) mod cells;
pub(crate) mod commands;
pub(crate) mod docs;
mod events;
pub(crate) mod files;
pub(crate) mod health;
pub(crate) mod interpret;
pub(crate) mod kernels;
pub(crate) mod keys;
pub(crate) mod network;
pub(crate) mod openapi;
pub(crate) mod ports;
pub(crate) mod run;
pub(crate) mod sandboxes;
pub(crate) mod secrets;
pub(crate) mod stats;
pub(crate) mod templates;
mod tier;
pub(crate) mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use axum::{Router, routing};
use silica_policy::{Policy, PolicyChoice, Preset};
use silica_sessions::Session;

use crate::app::App;
use crate::dispatch::Facade;
use crate::http::auth::Caller;
use crate::http::dialect::Dialect;
use crate::http::problem::{Code, Problem};
use crate::http::session::{Found, Requester, find};

/// The API under `/v1`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Native;

impl Dialect for Native {
    fn refuse(&self, problem: &Problem, request_id: &str) -> Response {
        wire::problem::response(problem, request_id)
    }
}

impl Facade for Native {
    fn routes(&self) -> Router<App> {
        routes().merge(ports::passed_on())
    }
}

/// Makes the router and the list of its routes from one table.
macro_rules! routes {
    ($($method:ident $path:literal => $handler:path;)*) => {
        /// The method and path of every route; tests hold the OpenAPI document to it.
        #[cfg(test)]
        pub(crate) const ROUTES: &[(&str, &str)] = &[$((stringify!($method), $path),)*];

        fn routes() -> Router<App> {
            Router::new()$(.route($path, routing::$method($handler)))*
        }
    };
}

routes! {
    get "/" => health::service;
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
    post "/v1/sandboxes/{sandbox}/fork" => branching::fork;
    post "/v1/sandboxes/{sandbox}/snapshots" => branching::snapshot;
    post "/v1/sandboxes/{sandbox}/marks" => branching::mark;
    post "/v1/sandboxes/{sandbox}/undo" => branching::undo;
    get "/v1/snapshots" => branching::list;
    get "/v1/snapshots/{snapshot}" => branching::get;
    delete "/v1/snapshots/{snapshot}" => branching::delete;
    get "/v1/sandboxes/{sandbox}/usage" => sandboxes::usage;

    get "/v1/sandboxes/{sandbox}/network" => network::get;
    put "/v1/sandboxes/{sandbox}/network" => network::put;
    post "/v1/sandboxes/{sandbox}/network/check" => network::check;
    get "/v1/sandboxes/{sandbox}/network/connections" => network::connections;

    get "/v1/sandboxes/{sandbox}/kernels" => kernels::list;
    post "/v1/sandboxes/{sandbox}/kernels" => kernels::create;
    get "/v1/sandboxes/{sandbox}/kernels/{kernel}" => kernels::get;
    delete "/v1/sandboxes/{sandbox}/kernels/{kernel}" => kernels::delete;
    post "/v1/sandboxes/{sandbox}/kernels/{kernel}/interrupt" => kernels::interrupt;
    post "/v1/sandboxes/{sandbox}/kernels/{kernel}/restart" => kernels::restart;
    post "/v1/sandboxes/{sandbox}/kernels/{kernel}/complete" => kernels::complete;
    post "/v1/sandboxes/{sandbox}/kernels/{kernel}/inspect" => kernels::inspect;
    post "/v1/sandboxes/{sandbox}/kernels/{kernel}/check" => kernels::check;

    get "/v1/sandboxes/{sandbox}/cells" => cells::list;
    post "/v1/sandboxes/{sandbox}/cells" => cells::create;
    get "/v1/sandboxes/{sandbox}/cells/{cell}" => cells::get;
    get "/v1/sandboxes/{sandbox}/cells/{cell}/events" => cells::events;
    post "/v1/sandboxes/{sandbox}/cells/{cell}/interrupt" => cells::interrupt;
    post "/v1/sandboxes/{sandbox}/cells/{cell}/extend" => cells::extend;
    post "/v1/sandboxes/{sandbox}/cells/{cell}/input" => cells::input;

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

    get "/v1/sandboxes/{sandbox}/ports" => ports::list;
    get "/v1/sandboxes/{sandbox}/ports/{port}/" => ports::by_key;
    post "/v1/sandboxes/{sandbox}/ports/{port}/link" => ports::link;

    get "/v1/approvals" => approvals::list;
    get "/v1/approvals/{approval}" => approvals::get;
    post "/v1/approvals/{approval}/approve" => approvals::approve;
    post "/v1/approvals/{approval}/deny" => approvals::deny;

    get "/v1/secrets" => secrets::list;
    get "/v1/secrets/{secret}" => secrets::get;
    put "/v1/secrets/{secret}" => secrets::put;
    delete "/v1/secrets/{secret}" => secrets::delete;

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

/// Returns the caller's sandbox. Fails with the reason for one that has ended; another key's does not
/// exist.
async fn session(app: &App, caller: &Caller, id: &str) -> Result<Arc<Session>, Problem> {
    match find(app, Requester::Tenant(&caller.tenant), id) {
        Some(Found::Live(session) | Found::Ending(session)) => Ok(session),
        None => {
            let record = app.sessions.record(&caller.tenant, id).await?;
            let reason = record.end_reason.unwrap_or_else(|| record.state.name().to_owned());
            let detail = format!("sandbox {id} has ended: {reason}");
            Err(Problem::new(Code::SandboxEnded, detail))
        }
    }
}

/// Parses a number of seconds.
pub(super) fn seconds(number: f64) -> Result<Duration, Problem> {
    Duration::try_from_secs_f64(number)
        .map_err(|_| Problem::bad(format!("{number} is not a valid number of seconds")))
}

/// Parses a policy: the name of a preset, or the text of a policy file.
fn policy(text: &str) -> Result<PolicyChoice, Problem> {
    if let Some(preset) = Preset::from_name(text) {
        return Ok(PolicyChoice::Preset(preset));
    }
    if !text.contains('=') {
        let words = "policy must be strict, data, open, or the text of a policy file";
        return Err(Problem::bad(words));
    }
    let own = Policy::parse(text).map_err(|error| Problem::bad(error.to_string()))?;
    Ok(PolicyChoice::Own(Arc::new(own)))
}

/// Makes the schema of a request demand exactly one of these fields, of these types.
fn one_of(fields: &'static [(&'static str, &'static str)]) -> impl FnMut(&mut schemars::Schema) {
    move |schema| {
        let choices = fields.iter().map(|(field, kind)| {
            let properties = serde_json::json!({*field: {"type": kind}});
            serde_json::json!({"required": [field], "properties": properties})
        });
        schema.insert("oneOf".to_owned(), choices.collect());
    }
}
