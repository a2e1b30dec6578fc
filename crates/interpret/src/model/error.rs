//! Errors of models, one variant for each thing a caller can act on.

use std::time::Duration;

/// The most characters of a provider's message that an error repeats.
const WORDS_CHARS_MAX: usize = 300;

/// Why a model gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// There is no key for the provider.
    #[error(
        "no key for the model provider is configured; set SILICA_MODEL_KEY or model.key_file, or \
         model.key_needed=no for a provider that needs none"
    )]
    NoKey,
    /// The provider refused the key.
    #[error("the model provider refused the key (status {status}){words}")]
    KeyRefused {
        /// The status of the response.
        status: u16,
        /// The message of the provider.
        words: ProviderMessage,
    },
    /// The provider has no such model.
    #[error("the model provider has no model {model:?}{words}")]
    NoModel {
        /// The model.
        model: String,
        /// The message of the provider.
        words: ProviderMessage,
    },
    /// The provider refused the request, for example since it is too long.
    #[error("the model provider refused the request (status {status}){words}")]
    Refused {
        /// The status of the response.
        status: u16,
        /// The message of the provider.
        words: ProviderMessage,
    },
    /// The provider is overloaded, or the key has used its rate.
    #[error("the model provider is busy (status {status}){words}")]
    Busy {
        /// The status of the response.
        status: u16,
        /// When to try again, if the provider said so.
        retry_after: Option<Duration>,
        /// The message of the provider.
        words: ProviderMessage,
    },
    /// The provider failed.
    #[error("the model provider failed (status {status}){words}")]
    Failed {
        /// The status of the response.
        status: u16,
        /// The message of the provider.
        words: ProviderMessage,
    },
    /// No connection could be made.
    #[error("the model provider cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    /// The provider took too long.
    #[error("the model provider did not answer within {} seconds", .0.as_secs_f64())]
    Slow(Duration),
    /// The connection ended in the middle of the answer.
    #[error("the model's answer broke off in the middle")]
    Cut,
    /// The response is not of the expected form.
    #[error("the model provider sent a malformed answer: {0}")]
    Malformed(String),
    /// The answer is too long.
    #[error("the model's answer is longer than {0} bytes")]
    TooLong(usize),
    /// The script has no turn left.
    #[error("the script of the model has no turn for this request")]
    ScriptEnded,
}

/// The message of a provider, shortened, on one line, without the key. It is shown after a colon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderMessage(String);

impl ProviderMessage {
    pub(crate) fn new(text: &str) -> Self {
        let line: String = text
            .chars()
            .map(|character| if character.is_control() { ' ' } else { character })
            .take(WORDS_CHARS_MAX)
            .collect();
        Self(line.trim().to_owned())
    }
}

impl std::fmt::Display for ProviderMessage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(formatter, ": {}", self.0) }
    }
}

impl ModelError {
    /// Returns its name in JSON and in the audit log.
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

    /// Returns whether the same request may succeed a moment later.
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

    /// Returns when to try again, if the provider said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
