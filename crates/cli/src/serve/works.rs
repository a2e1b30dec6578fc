//! The engine of a server: which templates it offers, how it is started, and that there is one.
//!
//! A zone that dies, whatever killed it, takes its sandboxes along. The server goes on and gets another
//! zone.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use silica_domain::Tier;
use silica_engine::{CreateOptions, Engine, EngineOptions};
use silica_sessions::Sessions;
use silica_store::audit::Note;
use silica_templates::{Home, Template, list};

use crate::config::Settings;
use crate::home;

/// How long after a failure the next zone is tried, at first and at most.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// The templates on offer.
pub(super) struct Offer {
    /// Those of the pool and the default one: built now where they are not, and kept warm.
    warm: Vec<Template>,
    /// What was built otherwise: warmed up when somebody wants it.
    cold: Vec<Template>,
}

impl Offer {
    pub(super) fn find(home: &Home, settings: &Settings) -> Result<Self> {
        let mut names: BTreeSet<_> = settings.pool.keys().map(ToString::to_string).collect();
        names.insert(settings.sandboxes.template.to_string());
        let warm = names.iter().map(|name| home::template(home, name)).collect::<Result<_>>()?;
        let mut cold = Vec::new();
        for listed in list(home)? {
            match listed.build {
                _ if names.contains(listed.name.as_str()) => {}
                Ok(template) => cold.push(template),
                Err(error) => {
                    let template = listed.name.as_str();
                    tracing::warn!(template, %error, "not offered: it is damaged");
                }
            }
        }
        Ok(Self { warm, cold })
    }

    /// What clients are told of them.
    pub(super) fn shown(&self) -> Vec<Value> {
        let show = |template: &Template| {
            let manifest = &template.manifest;
            json!({
                "name": manifest.name,
                "description": manifest.description,
                "python": manifest.python_version,
                "packages": manifest.packages,
            })
        };
        self.warm.iter().chain(&self.cold).map(show).collect()
    }
}

/// Everything that an engine is started from.
pub(super) struct Works {
    pub(super) home: Home,
    pub(super) settings: Settings,
    pub(super) offer: Offer,
}

impl Works {
    /// Starts an engine with all templates, the warm ones warm, and lets its pools fill.
    pub(super) async fn start(&self) -> Result<Engine> {
        let engine = Engine::start(EngineOptions {
            limits_max: self.settings.limits.max.clone(),
            ..home::engine_options(&self.home, Tier::Jail, self.settings.zygotes)?
        })?;
        match self.equip(&engine).await {
            Ok(()) => Ok(engine),
            Err(error) => {
                engine.close().await;
                Err(error)
            }
        }
    }

    async fn equip(&self, engine: &Engine) -> Result<()> {
        for template in &self.offer.warm {
            let name = &template.manifest.name;
            engine.add_template(template.clone()).await?;
            tracing::info!(template = name, "warming up");
            engine.warm(name).await?;
        }
        for template in &self.offer.cold {
            engine.add_template(template.clone()).await?;
        }
        for (name, &size) in &self.settings.pool {
            let mut options = CreateOptions::new(name.as_str());
            options.limits = self.settings.limits.default.clone();
            engine.keep_ready(&options, size as usize)?;
        }
        Ok(())
    }

    /// Puts a new engine in the place of one whose zone has died, for as long as the server takes on
    /// work.
    pub(super) async fn keep(self, sessions: Weak<Sessions>) {
        loop {
            let Some(engine) = sessions.upgrade().map(|sessions| sessions.engine()) else { return };
            engine.ended().await;
            if !sessions.upgrade().is_some_and(|sessions| sessions.is_open()) {
                return;
            }
            tracing::error!("the zone process has ended, and all sandboxes with it");
            // What it kept ready is dead.
            engine.close().await;
            let Some(engine) = self.start_again(&sessions).await else { return };
            let Some(sessions) = sessions.upgrade() else { return };
            sessions.replace_engine(engine).await;
            tracing::warn!("another zone has taken its place");
            // The log shows by itself what was lost; a note that cannot be written is no reason to stop.
            let _ = sessions.store().audit().note(Note::new("zone_replaced")).await;
        }
    }

    /// Tries until it works or the server stops.
    async fn start_again(&self, sessions: &Weak<Sessions>) -> Option<Arc<Engine>> {
        let mut pause = RETRY_PAUSE;
        loop {
            match self.start().await {
                Ok(engine) => return Some(Arc::new(engine)),
                Err(error) => tracing::error!("no other zone can be started: {error:#}"),
            }
            tokio::time::sleep(pause).await;
            pause = RETRY_PAUSE_MAX.min(pause * 2);
            sessions.upgrade().filter(|sessions| sessions.is_open())?;
        }
    }
}
