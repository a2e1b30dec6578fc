//! The key of a model provider: held and sent, never shown.

use std::fmt;

/// The key of a model provider. It prints as `****`; only the code that builds a request reads it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderKey(String);

/// The longest key.
const SECRET_BYTES_MAX: usize = 8 * 1024;

impl ProviderKey {
    /// Takes the text of a variable or a file, without the space around it. `None` if it is empty, too long, or
    /// has characters that no key has.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let good = !text.is_empty()
            && text.len() <= SECRET_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        good.then(|| Self(text.to_owned()))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Replaces the key in a text of the provider, such as an error.
    pub(crate) fn redact(&self, text: &str) -> String {
        text.replace(&self.0, "****")
    }
}

impl fmt::Debug for ProviderKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ProviderKey(****)")
    }
}
