//! Starts the engine of a server with its templates, and starts another when its zone process ends.
//!
//! All sandboxes of a zone end with the zone process. The server keeps running meanwhile.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use silica_domain::Tier;
use silica_engine::{CreateOptions, Engine, EngineOptions};
use silica_server::Startup;
use silica_sessions::Sessions;
use silica_store::audit::Note;
use silica_templates::{Home, Template, list};

use crate::config::Settings;
use crate::home;
use crate::template::progress::StartProgress;

/// How long to wait after a failed start, at first; it doubles with every failure.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The longest wait between two attempts to start an engine.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// The templates that a server offers.
pub(super) struct TemplateSet {
    /// The templates of the pool and the default template. They are warmed up at the start.
    warm: Vec<Template>,
    /// All other built templates. The first sandbox of each warms it up.
    cold: Vec<Template>,
}

impl TemplateSet {
    /// Finds all templates, and builds those of the pool and the default one if they are not built.
    pub(super) fn find(home: &Home, settings: &Settings, startup: &Startup) -> Result<Self> {
        let mut names: BTreeSet<_> = settings.pool.keys().map(ToString::to_string).collect();
        names.insert(settings.sandboxes.template.to_string());
        let build = |name: &String| {
            let progress = &mut || StartProgress::new(name, startup.clone());
            home::template_with(home, name, progress)
        };
        let warm = names.iter().map(build).collect::<Result<_>>()?;
        let mut cold = Vec::new();
        for listed in list(home)? {
            match listed.build {
                _ if names.contains(listed.name.as_str()) => {}
                Ok(template) => cold.push(template),
                Err(error) => {
                    let template = listed.name.as_str();
                    tracing::warn!(template, %error, "the template is damaged and is not offered");
                }
            }
        }
        Ok(Self { warm, cold })
    }

    /// Returns the templates as the API lists them.
    pub(super) fn to_json(&self) -> Vec<Value> {
        let object = |template: &Template| {
            let manifest = &template.manifest;
            json!({
                "name": manifest.name,
                "description": manifest.description,
                "python": manifest.python_version,
                "packages": manifest.packages,
            })
        };
        self.warm.iter().chain(&self.cold).map(object).collect()
    }
}

/// Whether a start waits until the interpreters of the templates are warm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Warming {
    /// A template whose interpreter cannot start is an error.
    Awaited,
    /// Requests wait for a zone. The first sandboxes get fresh interpreters.
    Begun,
}

/// Starts engines, one after the other.
pub(super) struct EngineSupervisor {
    pub(super) home: Home,
    pub(super) settings: Settings,
    pub(super) templates: TemplateSet,
    /// The certificate of the server's own authority, as PEM.
    pub(super) trust: Vec<u8>,
}

impl EngineSupervisor {
    /// Starts an engine, loads all templates, and starts to fill its pools.
    pub(super) async fn start(&self, warming: Warming, startup: &Startup) -> Result<Engine> {
        let options = EngineOptions {
            limits_max: self.settings.limits.max.clone(),
            trust: Some(self.trust.clone()),
            ..home::engine_options(&self.home, Tier::Jail, self.settings.zygotes)?
        };
        // Starting waits for the zone process, which would stop a thread that answers requests.
        let engine = tokio::task::spawn_blocking(|| Engine::start(options)).await??;
        match self.load_templates(&engine, warming, startup).await {
            Ok(()) => Ok(engine),
            Err(error) => {
                engine.close().await;
                Err(error)
            }
        }
    }

    async fn load_templates(
        &self,
        engine: &Engine,
        warming: Warming,
        startup: &Startup,
    ) -> Result<()> {
        for template in &self.templates.warm {
            let name = &template.manifest.name;
            engine.add_template(template.clone()).await?;
            tracing::info!(template = name, "warming up");
            startup.set_doing(format!("warming up template {name}"));
            match warming {
                Warming::Awaited => engine.warm(name).await?,
                Warming::Begun => engine.begin_warming(name).await?,
            }
        }
        for template in &self.templates.cold {
            engine.add_template(template.clone()).await?;
        }
        for (name, &size) in &self.settings.pool {
            let mut options = CreateOptions::new(name.as_str());
            options.limits = self.settings.limits.default.clone();
            engine.keep_ready(&options, size as usize)?;
        }
        Ok(())
    }

    /// Replaces the engine whenever its zone process ends, until the server stops accepting work.
    pub(super) async fn supervise(self, sessions: Weak<Sessions>, startup: Startup) {
        loop {
            let Some(engine) = sessions.upgrade().map(|sessions| sessions.engine()) else { return };
            engine.ended().await;
            if !sessions.upgrade().is_some_and(|sessions| sessions.is_open()) {
                return;
            }
            tracing::error!("the zone process has ended, and all sandboxes with it");
            // In the background: what is left of the dead zone is cleared away while another starts. The
            // sandboxes in its pool have ended with it.
            tokio::spawn(async move { engine.close().await });
            let began = Instant::now();
            let Some(engine) = self.restart(&sessions, &startup).await else { return };
            let Some(sessions) = sessions.upgrade() else { return };
            sessions.replace_engine(engine).await;
            let took_ms = began.elapsed().as_millis() as u64;
            tracing::warn!(took_ms, "another zone process has been started");
            // The records of the lost executions are in the log anyway, so a failure is ignored.
            let _ = sessions.audit().note(Note::new("zone_replaced")).await;
        }
    }

    /// Starts an engine, repeatedly until it succeeds; returns `None` when the server stops.
    async fn restart(&self, sessions: &Weak<Sessions>, startup: &Startup) -> Option<Arc<Engine>> {
        let mut pause = RETRY_PAUSE;
        loop {
            match self.start(Warming::Begun, startup).await {
                Ok(engine) => return Some(Arc::new(engine)),
                Err(error) => tracing::error!("cannot start another zone: {error:#}"),
            }
            tokio::time::sleep(pause).await;
            pause = RETRY_PAUSE_MAX.min(pause * 2);
            sessions.upgrade().filter(|sessions| sessions.is_open())?;
        }
    }
}
