//! The secret of a key: 160 random bits, shown once.

use std::fmt;

use crate::digest::{from_hex, to_hex};
use crate::random::random;
use crate::{Digest, StoreError};

/// How our own keys begin.
const PREFIX: &str = "silica_";
/// The same key as clients of E2B want to see it.
const OTHER_PREFIX: &str = "e2b_";
/// 160 bits.
const BYTES: usize = 20;

/// The secret part of a key. It prints as `****`; only [`Secret::reveal`] gives it away.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; BYTES]);

impl Secret {
    pub(super) fn random() -> Result<Self, StoreError> {
        random().map(Self)
    }

    /// Reads `silica_` or `e2b_` and 40 lowercase hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX).or_else(|| text.strip_prefix(OTHER_PREFIX))?;
        from_hex(digits).map(Self)
    }

    /// Returns the key as its owner writes it.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", to_hex(&self.0))
    }

    /// What is kept of it. The secret has too many bits to be guessed, so a plain digest is enough.
    pub(super) fn digest(&self) -> Digest {
        Digest::of(to_hex(&self.0))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(****)")
    }
}
