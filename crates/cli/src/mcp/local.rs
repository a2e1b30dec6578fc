//! Sessions in an engine of this process, behind the native API, which no socket leads to.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use silica_domain::Tier;
use silica_server::InProcessApi;
use silica_sessions::Sessions;
use silica_store::keys::{KeyName, NewKey};
use silica_store::{Access, DATABASE_NAME, Store, StoreOptions};
use tokio::runtime::Runtime;

use crate::config::{self, ServeFlags, Settings};
use crate::{home, model, serve, units};

/// How long to wait at the end for cells that still run.
const CLOSE_PATIENCE: Duration = Duration::from_millis(100);

/// The name of the only key.
const KEY_NAME: &str = "mcp";

/// Arguments that count without a server.
#[derive(Debug, Args)]
pub(super) struct LocalArgs {
    /// What sandboxes start from, without a server [default: sandboxes.template]
    #[arg(long, value_name = "TEMPLATE")]
    template: Option<String>,
    /// Set a key of the configuration, without a server; can be given again
    #[arg(long, value_name = "KEY=VALUE", value_parser = units::variable)]
    set: Vec<(String, String)>,
}

/// Serves the client at standard input in an engine of this process.
pub(super) fn serve(runtime: &Runtime, arguments: &LocalArgs) -> Result<()> {
    let home = home::home()?;
    let mut set = arguments.set.clone();
    if let Some(template) = &arguments.template {
        set.push(("sandboxes.template".to_owned(), template.clone()));
    }
    let settings = Settings::load(&ServeFlags::setting(set), &config::environment()?, home.path())?;
    let settings = settings.settings;
    let review = serve::review(&settings)?;
    let template = home::template(&home, settings.sandboxes.template.as_str())?;
    let place = tempfile::tempdir().context("cannot create a temporary directory")?;
    runtime.block_on(async {
        let engine = home::engine(&home, Tier::Jail)?;
        engine.add_template(template).await?;
        let options = StoreOptions::new(Access::Server);
        let store = Store::open(&place.path().join(DATABASE_NAME), options)?;
        let name = KeyName::new(KEY_NAME)?;
        let key = NewKey { name, admin: false, approve: false, limits: None };
        let (_, secret) = store.keys().create(key).await?;
        let options = serve::options(&settings, review);
        let sessions = Sessions::start(engine, store.clone(), options).await?;
        let prompts = model::unused(&settings, Arc::clone(&sessions), store)?;
        let mut options = serve::app_options(&settings, "", Vec::new());
        // Requests come from this process, and name no host.
        options.allowed_hosts.clear();
        let router = silica_server::router(Arc::clone(&sessions), prompts, options)?;
        let api = InProcessApi::with_key(router, &secret.reveal());
        let api = api.context("the key of this process is not valid")?;
        let served = super::serve(api).await;
        sessions.close(CLOSE_PATIENCE).await;
        served
    })
}
