//! What one key may ask for, if it is not what all keys may: kept as JSON among the key's limits.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use silica_domain::{NetworkMode, NetworkPolicy, NetworkRule};
use silica_store::Tenant;

use crate::error::SessionError;
use crate::sessions::Sessions;

/// The most that one key may ask for. The operator's `network.mode_max` and `network.deny` hold above
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyCeiling {
    policy: NetworkPolicy,
}

/// The limits of a key, as they are stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<StoredCeiling>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCeiling {
    mode: String,
    #[serde(default)]
    allow: Vec<String>,
}

impl KeyCeiling {
    /// Checks a mode and rules in their short form. A list must have rules, and only a list may.
    pub fn parse(mode: &str, allow: &[String]) -> Result<Self, SessionError> {
        let mode: NetworkMode = mode.parse().map_err(|error| SessionError::network(&error))?;
        if (mode == NetworkMode::List) == allow.is_empty() {
            let words = "the network of a key needs rules if its mode is list, and none otherwise";
            return Err(SessionError::BadNetwork(words.to_owned()));
        }
        let rules: Result<Vec<NetworkRule>, _> = allow.iter().map(|rule| rule.parse()).collect();
        let rules = rules.map_err(|error| SessionError::network(&error))?;
        let policy = NetworkPolicy::new(mode, rules, Vec::new(), false);
        Ok(Self { policy: policy.map_err(|error| SessionError::network(&error))? })
    }

    /// Returns it as the limits of a key.
    pub fn to_limits(&self) -> String {
        let (mode, allow) = (self.mode().name().to_owned(), self.rules());
        let limits = StoredLimits { network: Some(StoredCeiling { mode, allow }) };
        // Strings alone: it cannot fail, and a text that does not parse allows nothing.
        serde_json::to_string(&limits).unwrap_or_default()
    }

    /// Reads it from the limits of a key; `None` if they say nothing of the network.
    pub fn from_limits(limits: &str) -> Result<Option<Self>, SessionError> {
        let malformed = |error| SessionError::BadNetwork(format!("the limits of a key: {error}"));
        let limits: StoredLimits = serde_json::from_str(limits).map_err(malformed)?;
        limits.network.map(|stored| Self::parse(&stored.mode, &stored.allow)).transpose()
    }

    /// Returns the most that the key may have.
    pub fn mode(&self) -> NetworkMode {
        self.policy.mode()
    }

    /// Returns the rules as text.
    pub fn rules(&self) -> Vec<String> {
        self.policy.allow().iter().map(ToString::to_string).collect()
    }
}

impl Sessions {
    /// Returns what a key may ask for: its own ceiling, or the one of all keys. Limits that cannot be
    /// read allow nothing.
    pub(super) fn ceiling(&self, tenant: &Tenant) -> Result<NetworkPolicy, SessionError> {
        let record = self.services.store.keys().record(tenant)?;
        let limits = record.as_ref().and_then(|record| record.limits.as_deref());
        match limits.map(KeyCeiling::from_limits).transpose() {
            Ok(Some(Some(ceiling))) => Ok(ceiling.policy),
            Ok(Some(None) | None) => Ok(self.services.networks.options.ceiling.clone()),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, %tenant, "the limits of a key allow no network");
                Ok(NetworkPolicy::none())
            }
        }
    }
}
