//! The settings of models and prompts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use silica_interpret::model::Price;

/// The API of the provider of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    None,
    Anthropic,
    OpenAi,
    Scripted,
}

/// The header that carries the key of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthHeader {
    /// The header that the provider's own clients use.
    Usual,
    ApiKey,
    Bearer,
}

/// The settings of the model that answers prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) provider: Provider,
    /// `None` for the public API of the provider.
    pub(crate) base_url: Option<String>,
    pub(crate) name: Option<String>,
    /// The models that clients may use besides `name`; `*` for any.
    pub(crate) allowed: Vec<String>,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) key_needed: bool,
    pub(crate) auth: AuthHeader,
    pub(crate) anthropic_version: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) prices: BTreeMap<String, Price>,
    pub(crate) script: Option<PathBuf>,
    pub(crate) tokens_max: u32,
    pub(crate) connect: Duration,
    pub(crate) silence: Duration,
    pub(crate) timeout: Duration,
    pub(crate) retries: u32,
}

/// The settings of prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interpret {
    pub(crate) preset: String,
    /// A directory of further presets.
    pub(crate) presets: Option<PathBuf>,
    pub(crate) prompt_chars_max: u32,
    pub(crate) rounds: u32,
    pub(crate) steps_max: u32,
    pub(crate) tokens_max: u64,
    pub(crate) timeout: Duration,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            provider: Provider::None,
            base_url: None,
            name: None,
            allowed: Vec::new(),
            key_file: None,
            key_needed: true,
            auth: AuthHeader::Usual,
            anthropic_version: "2023-06-01".to_owned(),
            headers: BTreeMap::new(),
            prices: BTreeMap::new(),
            script: None,
            tokens_max: 8192,
            connect: Duration::from_secs(10),
            silence: Duration::from_mins(1),
            timeout: Duration::from_mins(5),
            retries: 2,
        }
    }
}

impl Default for Interpret {
    fn default() -> Self {
        Self {
            preset: silica_interpret::preset::DEFAULT.to_owned(),
            presets: None,
            prompt_chars_max: 2000,
            rounds: 2,
            steps_max: 12,
            tokens_max: 200_000,
            timeout: Duration::from_mins(10),
        }
    }
}
