//! A key of a provider: held, sent, and never shown.

use std::fmt;

/// A text that prints as `****`. Only what builds a request may look inside.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// The longest key that is believed to be one.
const SECRET_BYTES_MAX: usize = 8 * 1024;

impl Secret {
    /// Takes a key as it was found in a variable or a file, without the space around it; `None` for
    /// what cannot be one.
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

    /// Takes the key out of a text that somebody else wrote, such as an error of a provider.
    pub(crate) fn redact(&self, text: &str) -> String {
        text.replace(&self.0, "****")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(****)")
    }
}
