//! What the operator decides about networks.

use std::collections::BTreeMap;

use silica_domain::{NetworkLimits, NetworkPolicy, NetworkRule};
use silica_egress::EgressOptions;
use silica_store::secrets::{SecretTerms, SecretText};

use super::events::TokenCounter;

/// What the operator decides about networks.
#[derive(Clone)]
pub struct NetworkOptions {
    /// What is forbidden for all sandboxes.
    pub floor: NetworkPolicy,
    /// What a key may ask for, unless it has a ceiling of its own.
    pub ceiling: NetworkPolicy,
    /// The limits of a sandbox's network, unless its owner asks for less.
    pub limits: NetworkLimits,
    /// Rules that clients may ask for by name.
    pub presets: BTreeMap<String, NetworkPreset>,
    /// Secrets that the operator offers to all keys.
    pub secrets: BTreeMap<String, OfferedSecret>,
    /// How the process that carries the bytes is started; `None` if no network is offered.
    pub egress: Option<EgressOptions>,
    /// Receives the tokens that models used for code in sandboxes.
    pub tokens: Option<TokenCounter>,
}

/// Rules that clients may ask for by name.
#[derive(Clone, Debug)]
pub struct NetworkPreset {
    /// What is allowed.
    pub rules: Vec<NetworkRule>,
    /// The secrets that its rules use, by name.
    pub secrets: Vec<String>,
    /// Variables that programs need to use it.
    pub environment: BTreeMap<String, String>,
}

/// A secret that the operator offers to all keys.
#[derive(Clone, Debug)]
pub struct OfferedSecret {
    /// The value.
    pub value: SecretText,
    /// Where it may go.
    pub terms: SecretTerms,
}

impl std::fmt::Debug for NetworkOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("NetworkOptions")
            .field("floor", &self.floor)
            .field("ceiling", &self.ceiling)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Default for NetworkOptions {
    /// Returns the options of a server that offers no network.
    fn default() -> Self {
        Self {
            floor: NetworkPolicy::none(),
            ceiling: NetworkPolicy::none(),
            limits: NetworkLimits::default(),
            presets: BTreeMap::new(),
            secrets: BTreeMap::new(),
            egress: None,
            tokens: None,
        }
    }
}
