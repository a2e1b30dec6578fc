//! Sessions in an engine of this process, behind the native API, which no socket leads to.
//!
//! A client waits for the first answer for seconds only, and a template may take longer to build. So the
//! client is served at once, and the first tool that needs a sandbox waits for the engine.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use silica_domain::Tier;
use silica_mcp::{Api, ApiError, ApiRequest, ApiResponse};
use silica_server::InProcessApi;
use silica_sessions::Sessions;
use silica_store::keys::{KeyName, NewKey};
use silica_store::{Access, DATABASE_NAME, Store, StoreOptions};
use tokio::runtime::Runtime;
use tokio::sync::watch;

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

impl LocalArgs {
    fn settings(&self) -> Result<Settings> {
        let mut set = self.set.clone();
        if let Some(template) = &self.template {
            set.push(("sandboxes.template".to_owned(), template.clone()));
        }
        let home = home::home()?;
        let flags = ServeFlags::setting(set);
        Ok(Settings::load(&flags, &config::environment()?, home.path())?.settings)
    }
}

/// The engine of this process, once it has started.
struct Started {
    sessions: Arc<Sessions>,
    api: InProcessApi,
    /// Holds the store; removed when it is dropped.
    _place: tempfile::TempDir,
}

/// How far the start has come: `None` while it goes on, then what it led to.
type Progress = Option<Result<InProcessApi, String>>;

/// The native API of an engine that may still be starting.
#[derive(Clone, Debug)]
struct StartingApi(watch::Receiver<Progress>);

impl Api for StartingApi {
    async fn send(&self, request: ApiRequest) -> Result<ApiResponse, ApiError> {
        let mut progress = self.0.clone();
        let api = match progress.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Ok(api))) => api.clone(),
            Ok(Some(Err(error))) => return Err(ApiError(error.clone())),
            Ok(None) | Err(_) => return Err(ApiError("the engine did not start".to_owned())),
        };
        api.send(request).await
    }
}

/// Serves the client at standard input in an engine of this process.
pub(super) fn serve(runtime: &Runtime, arguments: &LocalArgs) -> Result<()> {
    let settings = arguments.settings()?;
    let (progress, api) = watch::channel(None);
    let starting = runtime.spawn(async move {
        match start(settings).await {
            Ok(started) => {
                progress.send_replace(Some(Ok(started.api.clone())));
                Some(started)
            }
            Err(error) => {
                say!("silica: {error:#}");
                progress.send_replace(Some(Err(format!("{error:#}"))));
                None
            }
        }
    });
    runtime.block_on(async {
        let served = super::serve(StartingApi(api)).await;
        if starting.is_finished()
            && let Ok(Some(started)) = starting.await
        {
            started.sessions.close(CLOSE_PATIENCE).await;
        }
        served
    })
}

async fn start(settings: Settings) -> Result<Started> {
    let review = serve::review(&settings)?;
    let name = settings.sandboxes.template.to_string();
    let template = tokio::task::spawn_blocking(move || home::template(&home::home()?, &name));
    let template = template.await??;
    let place = tempfile::tempdir().context("cannot create a temporary directory")?;
    let engine = home::engine(&home::home()?, Tier::Jail, None)?;
    engine.add_template(template).await?;
    let options = StoreOptions::new(Access::Server);
    let store = Store::open(&place.path().join(DATABASE_NAME), options)?;
    let name = KeyName::new(KEY_NAME)?;
    let key = NewKey { name, admin: false, approve: false, jupyter: false, limits: None };
    let (_, secret) = store.keys().create(key).await?;
    let sessions =
        Sessions::start(engine, store.clone(), serve::options(&settings, review)).await?;
    let prompts = model::unused(&settings, Arc::clone(&sessions), store)?;
    let mut options = serve::app_options(&settings, "", Vec::new());
    // Requests come from this process, and name no host.
    options.allowed_hosts.clear();
    let router = silica_server::router(Arc::clone(&sessions), prompts, options)?;
    let api = InProcessApi::with_key(router, &secret.reveal());
    let api = api.context("the key of this process is not valid")?;
    Ok(Started { sessions, api, _place: place })
}
