//! The checked name of a template. It becomes a folder name, so nothing else may pass for one.

use std::fmt;

/// Longest name, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 40;

/// A template's name: `[a-z0-9][a-z0-9-]{0,39}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateName(String);

/// Why a text is not a template name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` is not a template name: use 1 to {NAME_BYTES_MAX} of a-z, 0-9 and `-`, not starting with `-`"
)]
pub struct NameError {
    name: String,
}

impl TemplateName {
    /// Checks `name`.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let valid = name.len() <= NAME_BYTES_MAX
            && name.bytes().next().is_some_and(plain)
            && name.bytes().all(|byte| plain(byte) || byte == b'-');
        if valid {
            Ok(Self(name.to_owned()))
        } else {
            // Cut, because the text may come from anywhere and ends in a message.
            let name = name.chars().take(2 * NAME_BYTES_MAX).collect();
            Err(NameError { name })
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TemplateName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
