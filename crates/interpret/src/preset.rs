//! Presets: what a model is told it is, and how its code is checked and run.
//!
//! Three are part of the program; an operator adds files of the same form.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use silica_policy::Policy;

/// The preset of those who name none.
pub const DEFAULT: &str = "data";

/// Presets that are part of the program.
const BUILT_IN: [(&str, &str); 3] = [
    ("data", include_str!("../presets/data.toml")),
    ("math", include_str!("../presets/math.toml")),
    ("program", include_str!("../presets/program.toml")),
];

/// The longest instruction of a preset.
const PROMPT_BYTES_MAX: usize = 64 * 1024;

/// Presets of an operator.
const PRESETS_MAX: usize = 100;

/// The longest name.
const NAME_BYTES_MAX: usize = 40;

/// One program, or step by step with a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// The model writes one program, which is run and repaired.
    #[default]
    Interpret,
    /// The model runs code in a live kernel as often as it likes, within bounds.
    Agent,
}

impl Shape {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interpret => "interpret",
            Self::Agent => "agent",
        }
    }
}

/// A preset.
#[derive(Clone, Debug)]
pub struct Preset {
    /// What it is for, for people.
    pub description: String,
    /// What the model is told.
    pub prompt: String,
    /// How its code is checked.
    pub policy: Chosen,
    /// What the sandbox starts from; the server's default if nothing is said.
    pub template: Option<String>,
    /// One program, or step by step.
    pub shape: Shape,
    /// How often code is sent back; the server's default if nothing is said.
    pub rounds: Option<u32>,
    /// How long a program may run; the server's default if nothing is said.
    pub timeout: Option<Duration>,
}

/// Why a file is no preset.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// It cannot be read as one.
    #[error("preset {0} is not what it should be")]
    Syntax(String, #[source] toml::de::Error),
    /// A value that cannot be had.
    #[error("preset {0}: {1}")]
    Value(String, String),
    /// Too many.
    #[error("there can be at most {PRESETS_MAX} presets")]
    TooMany,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    description: String,
    prompt: String,
    policy: String,
    template: Option<String>,
    #[serde(default)]
    shape: Shape,
    rounds: Option<u32>,
    timeout_seconds: Option<f64>,
}

/// All presets, by name.
#[derive(Clone, Debug)]
pub struct Presets(BTreeMap<String, Preset>);

impl Default for Presets {
    fn default() -> Self {
        let mut presets = Self(BTreeMap::new());
        for (name, text) in BUILT_IN {
            presets.add(name, text).expect("what is part of the program was tested");
        }
        presets
    }
}

impl Presets {
    /// Adds a preset, or replaces one of the same name.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), PresetError> {
        let wrong = |words: String| PresetError::Value(name.to_owned(), words);
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
            let words = format!("a name is 1 to {NAME_BYTES_MAX} of a-z, 0-9 and -");
            return Err(wrong(words));
        }
        let file: File =
            toml::from_str(text).map_err(|error| PresetError::Syntax(name.to_owned(), error))?;
        if file.prompt.len() > PROMPT_BYTES_MAX {
            return Err(wrong(format!("the prompt is longer than {PROMPT_BYTES_MAX} bytes")));
        }
        let policy = policy(&file.policy).map_err(|error| wrong(chain(&error)))?;
        let timeout = file.timeout_seconds.map(Duration::try_from_secs_f64).transpose();
        let timeout = timeout.map_err(|_| wrong("timeout_seconds is no time".to_owned()))?;
        if self.0.len() >= PRESETS_MAX {
            return Err(PresetError::TooMany);
        }
        let preset = Preset {
            description: file.description,
            prompt: file.prompt.trim().to_owned(),
            policy,
            template: file.template,
            shape: file.shape,
            rounds: file.rounds,
            timeout,
        };
        self.0.insert(name.to_owned(), preset);
        Ok(())
    }

    /// The preset of a name.
    pub fn get(&self, name: &str) -> Option<&Preset> {
        self.0.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Preset)> {
        self.0.iter().map(|(name, preset)| (name.as_str(), preset))
    }
}

/// A policy that was chosen: one of the program's, or somebody's own.
#[derive(Clone, Debug)]
pub enum Chosen {
    /// One of the program's.
    BuiltIn(&'static Policy),
    /// Somebody's own.
    Own(Arc<Policy>),
}

impl std::ops::Deref for Chosen {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        match self {
            Self::BuiltIn(policy) => policy,
            Self::Own(policy) => policy,
        }
    }
}

/// A policy as it is asked for: the name of a preset, or a policy itself.
pub fn policy(text: &str) -> Result<Chosen, silica_policy::PolicyError> {
    match silica_policy::Preset::from_name(text) {
        Some(preset) => Ok(Chosen::BuiltIn(Policy::preset(preset))),
        None => Ok(Chosen::Own(Arc::new(Policy::parse(text)?))),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
