//! What the audit log keeps of what it is told, and for how long.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use regex::Regex;

/// What stands in place of what was redacted.
const REDACTED: &str = "[redacted]";
/// The most patterns; each costs time for every execution.
const PATTERNS_MAX: usize = 100;

/// What of an execution's code is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodeKept {
    /// Its text, up to a bound, and its digest.
    #[default]
    Full,
    /// Its digest and its length only.
    Digest,
}

/// What the audit log keeps.
#[derive(Clone, Debug, Default)]
pub struct AuditSettings {
    /// What of the code.
    pub code: CodeKept,
    /// What is taken out of all texts before they are authenticated and written.
    pub redaction: Redaction,
    /// How long records are kept; for ever if nothing is said.
    pub retention: Option<Duration>,
    /// How many records are kept; all if nothing is said.
    pub records_max: Option<u64>,
}

/// Patterns of what must not be kept, for example keys that people paste into code.
#[derive(Clone, Debug, Default)]
pub struct Redaction(Vec<Regex>);

/// A pattern that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RedactionError {
    /// It is not a regular expression.
    #[error("{pattern:?} is not a regular expression")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: regex::Error,
    },
    /// It matches everywhere.
    #[error("{0:?} matches the empty text, so it would redact everything")]
    Everything(String),
    /// There are more than will be tried.
    #[error("{0} patterns, but at most {PATTERNS_MAX} are tried")]
    TooMany(usize),
}

impl Redaction {
    /// Checks patterns in the syntax of the `regex` crate, which takes linear time whatever they are.
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
