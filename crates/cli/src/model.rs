//! From settings and environment to something that answers prompts. The only reader of a provider's key.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use silica_interpret::model::{Auth, Cost, HttpModel, HttpOptions, Model, Scripted, Wire};
use silica_interpret::preset::Presets;
use silica_interpret::{
    ANY_MODEL, Budget, InterpretError, InterpretOptions, Interpreter, Ledger, Secret,
};
use silica_sessions::Sessions;
use silica_templates::Home;

use crate::config::Settings;
use crate::config::settings::{AuthHeader, Provider};

/// The largest file of turns, presets or keys that is read.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Where what was spent on models is written down, in the data directory.
const LEDGER_NAME: &str = "spending.json";

/// The name of the model of a script.
const SCRIPT_NAME: &str = "script";

/// The variable that holds the key of whatever provider there is.
const KEY_VARIABLE: &str = "SILICA_MODEL_KEY";

/// What answers prompts on a server.
pub(crate) fn interpreter(
    home: &Home,
    settings: &Settings,
    sessions: Arc<Sessions>,
) -> Result<Arc<Interpreter>> {
    let quota = &settings.quota;
    let cents = quota.model_cents_per_day;
    let budget = Budget {
        tokens: quota.model_tokens_per_day,
        cost: cents.map(|cents| Cost::dollars(cents as f64 / 100.0)),
    };
    let ledger = Ledger::open(budget, home.path().join(LEDGER_NAME))
        .context("the book of what was spent on models cannot be read")?;
    build(settings, provider(settings)?, settings.model.allowed.clone(), sessions, ledger)
}

/// The model for a terminal. Whatever would keep it from being asked is said here, before anything is
/// built for its code.
pub(crate) fn for_terminal(settings: &Settings) -> Result<Model> {
    let Some(model) = provider(settings)? else {
        return Err(InterpretError::NotConfigured).context(
            "a model is needed: for example SILICA_MODEL_PROVIDER=anthropic, \
             SILICA_MODEL_NAME=claude-sonnet-4-5 and ANTHROPIC_API_KEY (docs/interpret.md)",
        );
    };
    model.has_key()?;
    Ok(model)
}

/// What answers prompts in a terminal: nobody else's budget is at stake, and whoever pays for the model
/// says which.
pub(crate) fn in_terminal(
    settings: &Settings,
    model: Model,
    sessions: Arc<Sessions>,
) -> Result<Arc<Interpreter>> {
    let ledger = Ledger::in_memory(Budget::default());
    build(settings, Some(model), vec![ANY_MODEL.to_owned()], sessions, ledger)
}

fn build(
    settings: &Settings,
    provider: Option<Model>,
    models_allowed: Vec<String>,
    sessions: Arc<Sessions>,
    ledger: Ledger,
) -> Result<Arc<Interpreter>> {
    let (model, interpret) = (&settings.model, &settings.interpret);
    let presets = presets(interpret.presets.as_deref())?;
    if presets.get(&interpret.preset).is_none() {
        bail!("interpret.preset: there is no preset {:?}", interpret.preset);
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
    Ok(Interpreter::new(sessions, provider, options, presets, ledger))
}

fn provider(settings: &Settings) -> Result<Option<Model>> {
    let model = &settings.model;
    let (wire, address) = match model.provider {
        Provider::None => return Ok(None),
        Provider::Scripted => {
            let file = model.script.as_deref().context("model.script is not given")?;
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

/// The provider's key, and how Anthropic's own clients would show it: a variable of ours, then the
/// file, then the provider's own variables. These count only where no address of another is given:
/// nobody's key goes to a place it was not made for.
fn key(settings: &Settings, wire: Wire) -> Result<(Option<Secret>, Auth)> {
    let model = &settings.model;
    let secret = |text: &str, origin: &str| {
        Secret::new(text).with_context(|| format!("{origin} holds nothing that could be a key"))
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

fn presets(directory: Option<&Path>) -> Result<Presets> {
    let mut presets = Presets::default();
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
        bail!("{} is larger than {FILE_BYTES_MAX} bytes", path.display());
    }
    std::fs::read_to_string(path).with_context(words)
}
