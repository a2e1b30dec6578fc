//! What one party says about a sandbox's network: a mode and rules.

use std::str::FromStr;

use super::error::{NetworkError, excerpt};
use super::rule::{DenyRule, NetworkRule, at_most};

/// The most rules of one list.
const RULES_MAX: usize = 256;

/// The most patterns of paths of all rules: each may be compared with every request.
const PATHS_MAX: usize = 1024;

/// How much of the network there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetworkMode {
    /// None.
    None,
    /// What the rules allow.
    List,
    /// Every public name on ports 80 and 443, and what the rules allow.
    Open,
}

impl NetworkMode {
    /// Returns the mode's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::List => "list",
            Self::Open => "open",
        }
    }
}

impl FromStr for NetworkMode {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        [Self::None, Self::List, Self::Open]
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| NetworkError::Mode(excerpt(text)))
    }
}

/// A mode and rules. A list without rules allows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPolicy {
    mode: NetworkMode,
    allow: Vec<NetworkRule>,
    deny: Vec<DenyRule>,
    ask: bool,
}

impl NetworkPolicy {
    /// Makes a policy.
    pub fn new(
        mode: NetworkMode,
        allow: Vec<NetworkRule>,
        deny: Vec<DenyRule>,
        ask: bool,
    ) -> Result<Self, NetworkError> {
        at_most("rules of `allow`", allow.len(), RULES_MAX)?;
        at_most("rules of `deny`", deny.len(), RULES_MAX)?;
        let paths = allow.iter().map(NetworkRule::path_count).sum();
        at_most("patterns of paths", paths, PATHS_MAX)?;
        Ok(Self { mode, allow, deny, ask })
    }

    /// Returns the policy that allows nothing.
    pub fn none() -> Self {
        Self { mode: NetworkMode::None, allow: Vec::new(), deny: Vec::new(), ask: false }
    }

    /// Returns how much of the network there is.
    pub fn mode(&self) -> NetworkMode {
        self.mode
    }

    /// Returns the rules that allow.
    pub fn allow(&self) -> &[NetworkRule] {
        &self.allow
    }

    /// Returns the rules that forbid.
    pub fn deny(&self) -> &[DenyRule] {
        &self.deny
    }

    /// Tells whether a person is asked about hosts that no rule names.
    pub fn ask(&self) -> bool {
        self.ask
    }
}
