//! Builds the model and the prompt service from settings and environment.
//!
//! No other module reads the key of a provider.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use silica_interpret::model::{Auth, Cost, HttpModel, HttpOptions, Model, Scripted, Wire};
use silica_interpret::preset::PromptPresets;
use silica_interpret::{ANY_MODEL, DailyBudget, InterpretOptions, Ledger, ProviderKey};
use silica_server::{PromptError, PromptSandboxes, Prompts};
use silica_sessions::Sessions;
use silica_store::Store;
use silica_templates::Home;

use crate::config::Settings;
use crate::config::settings::{AuthHeader, Provider};

/// The largest file of turns, presets or keys that is read.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The file of the spending on models, in the data directory.
const LEDGER_NAME: &str = "spending.json";

/// The model name of a script.
const SCRIPT_NAME: &str = "script";

/// The environment variable with the key of the configured provider.
const KEY_VARIABLE: &str = "SILICA_MODEL_KEY";

/// Builds the prompt service of a server.
pub(crate) fn prompts(
    home: &Home,
    settings: &Settings,
    sessions: Arc<Sessions>,
    store: Store,
) -> Result<Arc<Prompts>> {
    let quota = &settings.quota;
    let cents = quota.model_cents_per_day;
    let budget = DailyBudget {
        tokens: quota.model_tokens_per_day,
        cost: cents.map(|cents| Cost::dollars(cents as f64 / 100.0)),
    };
    let ledger = Ledger::open(budget, home.path().join(LEDGER_NAME))
        .with_context(|| format!("cannot read {LEDGER_NAME}, the spending on models"))?;
    build(settings, provider(settings)?, settings.model.allowed.clone(), sessions, store, ledger)
}

/// Returns the model for a terminal. Missing settings are reported here, before a template is
/// built.
pub(crate) fn for_terminal(settings: &Settings) -> Result<Model> {
    let Some(model) = provider(settings)? else {
        return Err(PromptError::NotConfigured).context(
            "a model is needed: set for example SILICA_MODEL_PROVIDER=anthropic, \
             SILICA_MODEL_NAME=claude-sonnet-4-5 and ANTHROPIC_API_KEY; see docs/reference/interpret.md",
        );
    };
    model.has_key()?;
    Ok(model)
}

/// Builds the prompt service of a terminal: without a budget, and with any model, since its user
/// pays for the model.
pub(crate) fn in_terminal(
    settings: &Settings,
    model: Model,
    sessions: Arc<Sessions>,
    store: Store,
) -> Result<Arc<Prompts>> {
    let ledger = Ledger::in_memory(DailyBudget::default());
    build(settings, Some(model), vec![ANY_MODEL.to_owned()], sessions, store, ledger)
}

/// Builds the prompt service of a process that offers no prompts.
pub(crate) fn unused(
    settings: &Settings,
    sessions: Arc<Sessions>,
    store: Store,
) -> Result<Arc<Prompts>> {
    let ledger = Ledger::in_memory(DailyBudget::default());
    build(settings, None, Vec::new(), sessions, store, ledger)
}

fn build(
    settings: &Settings,
    provider: Option<Model>,
    models_allowed: Vec<String>,
    sessions: Arc<Sessions>,
    store: Store,
    ledger: Ledger,
) -> Result<Arc<Prompts>> {
    let model = &settings.model;
    let interpret = &settings.interpret;
    let presets = presets(interpret.presets.as_deref())?;
    if presets.get(&interpret.preset).is_none() {
        bail!(
            "interpret.preset is {:?}, and there is no such preset; use data, math, program, or one \
             of the directory interpret.presets",
            interpret.preset
        );
    }
    let options = InterpretOptions {
        model: model.name.clone().unwrap_or_else(|| SCRIPT_NAME.to_owned()),
        models_allowed,
        prices: model.prices.clone(),
        answer_tokens_max: model.tokens_max,
        preset: interpret.preset.clone(),
        prompt_chars_max: interpret.prompt_chars_max as usize,
        rounds: interpret.rounds,
        steps_max: interpret.steps_max,
        tokens_max: interpret.tokens_max,
        time_max: interpret.timeout,
    };
    let sandboxes = PromptSandboxes::new(sessions);
    Ok(Prompts::new(sandboxes, store, provider, options, presets, ledger))
}

fn provider(settings: &Settings) -> Result<Option<Model>> {
    let model = &settings.model;
    let (wire, address) = match model.provider {
        Provider::None => return Ok(None),
        Provider::Scripted => {
            let file = model.script.as_deref().context("model.script is not set")?;
            let script = Scripted::parse(&read(file)?)
                .with_context(|| format!("cannot use {}", file.display()))?;
            return Ok(Some(Model::Scripted(script)));
        }
        Provider::Anthropic => (Wire::Anthropic, "https://api.anthropic.com"),
        Provider::OpenAi => (Wire::Chat, "https://api.openai.com/v1"),
    };
    let (key, found_as) = key(settings, wire)?;
    let usual = match wire {
        Wire::Anthropic => found_as,
        Wire::Chat => Auth::Bearer,
    };
    let options = HttpOptions {
        wire,
        base_url: model.base_url.clone().unwrap_or_else(|| address.to_owned()),
        key,
        key_needed: model.key_needed,
        auth: match model.auth {
            AuthHeader::Usual => usual,
            AuthHeader::ApiKey => Auth::ApiKey,
            AuthHeader::Bearer => Auth::Bearer,
        },
        anthropic_version: model.anthropic_version.clone(),
        headers: model.headers.clone(),
        connect_max: model.connect,
        silence_max: model.silence,
        total_max: model.timeout,
        retries: model.retries,
    };
    let model = HttpModel::new(options).map_err(|words| anyhow!(words))?;
    Ok(Some(Model::Http(Box::new(model))))
}

/// Returns the key of the provider, and the header in which Anthropic's own clients send it. The
/// sources are `SILICA_MODEL_KEY`, then the file, then the variables of the provider. Those are
/// used only if `model.base_url` is not set, since the key must not be sent to another server.
fn key(settings: &Settings, wire: Wire) -> Result<(Option<ProviderKey>, Auth)> {
    let model = &settings.model;
    let secret = |text: &str, origin: &str| {
        ProviderKey::new(text).with_context(|| format!("{origin} does not contain a valid key"))
    };
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    if let Some(text) = variable(KEY_VARIABLE) {
        return Ok((Some(secret(&text, KEY_VARIABLE)?), Auth::ApiKey));
    }
    if let Some(file) = &model.key_file {
        let key = secret(&read(file)?, &file.display().to_string())?;
        return Ok((Some(key), Auth::ApiKey));
    }
    let known: &[(&str, Auth)] = match wire {
        _ if model.base_url.is_some() => &[],
        Wire::Anthropic => {
            &[("ANTHROPIC_API_KEY", Auth::ApiKey), ("ANTHROPIC_AUTH_TOKEN", Auth::Bearer)]
        }
        Wire::Chat => &[("OPENAI_API_KEY", Auth::Bearer)],
    };
    for &(name, auth) in known {
        if let Some(text) = variable(name) {
            return Ok((Some(secret(&text, name)?), auth));
        }
    }
    Ok((None, Auth::ApiKey))
}

fn presets(directory: Option<&Path>) -> Result<PromptPresets> {
    let mut presets = PromptPresets::default();
    let Some(directory) = directory else { return Ok(presets) };
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read the presets in {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            presets.add(&name, &read(&path)?)?;
        }
    }
    Ok(presets)
}

fn read(path: &Path) -> Result<String> {
    let words = || format!("cannot read {}", path.display());
    let size = std::fs::metadata(path).with_context(words)?.len();
    if size > FILE_BYTES_MAX {
        bail!("{} must have at most {FILE_BYTES_MAX} bytes", path.display());
    }
    std::fs::read_to_string(path).with_context(words)
}
