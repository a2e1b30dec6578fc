//! The settings of the audit log: what it stores, and for how long.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use regex::Regex;

/// The text that replaces a redacted one.
const REDACTED: &str = "[redacted]";
/// The most patterns; each costs time for every execution.
const PATTERNS_MAX: usize = 100;

/// How much of an execution's code is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodeKept {
    /// Its text, up to a limit, and its digest.
    #[default]
    Full,
    /// Its digest and its length only.
    Digest,
}

/// The settings of the audit log.
#[derive(Clone, Debug, Default)]
pub struct AuditSettings {
    /// How much of the code is stored.
    pub code: CodeKept,
    /// What is redacted in all texts before they are authenticated and stored.
    pub redaction: Redaction,
    /// How long records are kept; `None` for ever.
    pub retention: Option<Duration>,
    /// How many records are kept; `None` for all.
    pub records_max: Option<u64>,
    /// How many bytes all records together may take, about; `None` for any number.
    pub bytes_max: Option<u64>,
}

/// Patterns of texts that must not be stored, such as keys that people paste into code.
#[derive(Clone, Debug, Default)]
pub struct Redaction(Vec<Regex>);

/// Why patterns cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RedactionError {
    /// One is not a regular expression.
    #[error("{pattern:?} is not a regular expression")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: regex::Error,
    },
    /// One matches everywhere.
    #[error("{0:?} matches the empty text, so it would redact everything")]
    Everything(String),
    /// There are too many.
    #[error("there must be at most {PATTERNS_MAX} patterns, not {0}")]
    TooMany(usize),
}

impl Redaction {
    /// Compiles patterns in the syntax of the `regex` crate, which match in linear time.
    pub fn new(patterns: &[impl AsRef<str>]) -> Result<Self, RedactionError> {
        if patterns.len() > PATTERNS_MAX {
            return Err(RedactionError::TooMany(patterns.len()));
        }
        patterns.iter().map(|pattern| compile(pattern.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn apply<'text>(&self, text: &'text str) -> Cow<'text, str> {
        let mut text = Cow::Borrowed(text);
        for pattern in &self.0 {
            if let Cow::Owned(redacted) = pattern.replace_all(&text, regex::NoExpand(REDACTED)) {
                text = Cow::Owned(redacted);
            }
        }
        text
    }
}

fn compile(pattern: &str) -> Result<Regex, RedactionError> {
    let regex = Regex::new(pattern)
        .map_err(|source| RedactionError::Pattern { pattern: pattern.to_owned(), source })?;
    if regex.is_match("") {
        return Err(RedactionError::Everything(pattern.to_owned()));
    }
    Ok(regex)
}
