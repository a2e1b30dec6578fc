//! Why a model gave no answer, in terms that a caller can act on.

use std::time::Duration;

/// How much of a provider's own words is repeated.
const WORDS_CHARS_MAX: usize = 300;

/// Why a model gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// There is no key to show.
    #[error(
        "no key for the model provider is configured; set SILICA_MODEL_KEY or model.key_file, or \
         model.key_needed=no for a provider that wants none"
    )]
    NoKey,
    /// The key is wrong, or may not do this.
    #[error("the model provider refused the key (status {status}){words}")]
    KeyRefused {
        /// What it answered with.
        status: u16,
        /// Its words.
        words: Words,
    },
    /// There is no such model.
    #[error("the model provider has no model {model:?}{words}")]
    NoModel {
        /// Which.
        model: String,
        /// Its words.
        words: Words,
    },
    /// The request is not what the provider takes, for example too long.
    #[error("the model provider refused the request (status {status}){words}")]
    Refused {
        /// What it answered with.
        status: u16,
        /// Its words.
        words: Words,
    },
    /// Too much was asked, by us or by everybody.
    #[error("the model provider is busy (status {status}){words}")]
    Busy {
        /// What it answered with.
        status: u16,
        /// When to come back, if it said so.
        retry_after: Option<Duration>,
        /// Its words.
        words: Words,
    },
    /// The provider failed.
    #[error("the model provider failed (status {status}){words}")]
    Failed {
        /// What it answered with.
        status: u16,
        /// Its words.
        words: Words,
    },
    /// Nobody is there.
    #[error("the model provider cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    /// It took too long.
    #[error("the model provider did not answer within {} seconds", .0.as_secs_f64())]
    Slow(Duration),
    /// The connection ended in the middle of the answer.
    #[error("the model's answer broke off in the middle")]
    Cut,
    /// What came is no answer.
    #[error("the model provider sent something that is no answer: {0}")]
    Malformed(String),
    /// The answer is longer than anything that is of use.
    #[error("the model's answer is longer than {0} bytes")]
    TooLong(usize),
    /// A script that has nothing more to say.
    #[error("the script of the model has no turn for this request")]
    ScriptEnded,
}

/// What a provider said about its refusal: cut, without the key, on one line. Follows a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(String);

impl Words {
    pub(crate) fn new(text: &str) -> Self {
        let line: String = text
            .chars()
            .map(|character| if character.is_control() { ' ' } else { character })
            .take(WORDS_CHARS_MAX)
            .collect();
        Self(line.trim().to_owned())
    }
}

impl std::fmt::Display for Words {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(formatter, ": {}", self.0) }
    }
}

impl ModelError {
    /// Its name in JSON and in the audit log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoKey => "no_key",
            Self::KeyRefused { .. } => "key_refused",
            Self::NoModel { .. } => "no_model",
            Self::Refused { .. } => "refused",
            Self::Busy { .. } => "busy",
            Self::Failed { .. } => "failed",
            Self::Unreachable(_) => "unreachable",
            Self::Slow(_) => "slow",
            Self::Cut => "cut",
            Self::Malformed(_) => "malformed",
            Self::TooLong(_) => "too_long",
            Self::ScriptEnded => "script_ended",
        }
    }

    /// Whether the same request may go better a moment later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Failed { .. } | Self::Unreachable(_) | Self::Cut => true,
            Self::NoKey
            | Self::KeyRefused { .. }
            | Self::NoModel { .. }
            | Self::Refused { .. }
            | Self::Slow(_)
            | Self::Malformed(_)
            | Self::TooLong(_)
            | Self::ScriptEnded => false,
        }
    }

    /// When the provider wants to be asked again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
