//! The secret of a key: 160 random bits, shown once.

use std::fmt;

use crate::digest::{from_hex, to_hex};
use crate::random::random;
use crate::{Digest, StoreError};

/// The prefix of keys.
const PREFIX: &str = "silica_";
/// The prefix that clients of E2B require; the rest of the key is the same.
const OTHER_PREFIX: &str = "e2b_";
/// 160 bits.
const BYTES: usize = 20;

/// The secret of a key. Its `Debug` output is `****`; only [`KeySecret::reveal`] returns it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySecret([u8; BYTES]);

impl KeySecret {
    pub(super) fn random() -> Result<Self, StoreError> {
        random().map(Self)
    }

    /// Parses `silica_` or `e2b_` and 40 lowercase hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX).or_else(|| text.strip_prefix(OTHER_PREFIX))?;
        from_hex(digits).map(Self)
    }

    /// Returns the key as its owner writes it.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", to_hex(&self.0))
    }

    /// Returns the digest that is stored. The secret has too many bits to be guessed, so a plain
    /// digest, without salt or stretching, is enough.
    pub(super) fn digest(&self) -> Digest {
        Digest::of(to_hex(&self.0))
    }
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeySecret(****)")
    }
}
