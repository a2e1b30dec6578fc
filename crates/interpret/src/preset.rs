//! Presets of prompts: the instruction for the model, and how its code is checked and run.
//!
//! Three are part of the binary; an operator can add files of the same form.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use silica_policy::PolicyChoice;

/// The default preset.
pub const DEFAULT: &str = "data";

/// Presets that are part of the binary.
const BUILT_IN: [(&str, &str); 3] = [
    ("data", include_str!("../presets/data.toml")),
    ("math", include_str!("../presets/math.toml")),
    ("program", include_str!("../presets/program.toml")),
];

/// The most bytes of the instruction of a preset.
const PROMPT_BYTES_MAX: usize = 64 * 1024;

/// The most presets.
const PRESETS_MAX: usize = 100;

/// The longest name of a preset.
const NAME_BYTES_MAX: usize = 40;

/// How a model uses code to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// The model writes one program, which is run and sent back for repair.
    #[default]
    Interpret,
    /// The model runs code step by step in a live kernel, then answers.
    Agent,
}

impl Shape {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interpret => "interpret",
            Self::Agent => "agent",
        }
    }
}

/// A preset of prompts. What is `None` is the server's default.
#[derive(Clone, Debug)]
pub struct PromptPreset {
    /// What it is for, for people.
    pub description: String,
    /// The instruction for the model.
    pub prompt: String,
    /// The policy that checks the code.
    pub policy: PolicyChoice,
    /// The template of the sandbox.
    pub template: Option<String>,
    /// One program, or step by step.
    pub shape: Shape,
    /// How often a program is sent back for repair.
    pub rounds: Option<u32>,
    /// The timeout of one piece of code.
    pub timeout: Option<Duration>,
}

/// Why a file is not a preset.
#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    /// It is not TOML of the expected form.
    #[error("preset {0} cannot be read")]
    Syntax(String, #[source] toml::de::Error),
    /// A value is invalid.
    #[error("preset {0}: {1}")]
    Value(String, String),
    /// There are too many presets.
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
pub struct PromptPresets(BTreeMap<String, PromptPreset>);

impl Default for PromptPresets {
    fn default() -> Self {
        let mut presets = Self(BTreeMap::new());
        for (name, text) in BUILT_IN {
            presets.add(name, text).expect("a test reads every built-in preset");
        }
        presets
    }
}

impl PromptPresets {
    /// Adds a preset from the text of a file, or replaces the one of that name.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), PresetError> {
        let wrong = |words: String| PresetError::Value(name.to_owned(), words);
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
            let words =
                format!("a name must have 1 to {NAME_BYTES_MAX} characters of a-z, 0-9 and -");
            return Err(wrong(words));
        }
        let file: File =
            toml::from_str(text).map_err(|error| PresetError::Syntax(name.to_owned(), error))?;
        if file.prompt.len() > PROMPT_BYTES_MAX {
            return Err(wrong(format!("prompt must have at most {PROMPT_BYTES_MAX} bytes")));
        }
        let policy = PolicyChoice::parse(&file.policy).map_err(|error| wrong(chain(&error)))?;
        let timeout = file.timeout_seconds.map(Duration::try_from_secs_f64).transpose();
        let timeout =
            timeout.map_err(|_| wrong("timeout_seconds must be a positive number".to_owned()))?;
        if self.0.len() >= PRESETS_MAX {
            return Err(PresetError::TooMany);
        }
        let preset = PromptPreset {
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

    /// Returns the preset of a name.
    pub fn get(&self, name: &str) -> Option<&PromptPreset> {
        self.0.get(name)
    }

    /// Returns all presets with their names, in order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PromptPreset)> {
        self.0.iter().map(|(name, preset)| (name.as_str(), preset))
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
