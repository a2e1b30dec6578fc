//! Isolation tiers by name. What a tier does is in `engine/src/tier.rs`.

use std::fmt;
use std::str::FromStr;

/// What isolates a sandbox from the host and from other sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Linux namespaces, control groups, Landlock and seccomp, on the host's kernel.
    Jail,
}

impl Tier {
    /// Every tier, weakest isolation first.
    pub const ALL: [Self; 1] = [Self::Jail];

    /// Returns its name in requests, reports and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jail => "jail",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A name that no tier has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown tier {0:?}; known tiers: {known}", known = Tier::ALL.map(Tier::name).join(", "))]
pub struct UnknownTier(pub String);

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(name: &str) -> Result<Self, UnknownTier> {
        let named = Self::ALL.into_iter().find(|tier| tier.name() == name);
        named.ok_or_else(|| UnknownTier(name.to_owned()))
    }
}
