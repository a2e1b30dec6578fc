//! The policy that a request or an operator chooses.

use std::sync::Arc;

use crate::{Policy, PolicyError, Preset};

/// A preset, or a policy of a client or an operator.
#[derive(Clone, Debug)]
pub enum PolicyChoice {
    /// A policy that is part of the binary.
    Preset(Preset),
    /// A policy from a file or a request.
    Own(Arc<Policy>),
}

impl PolicyChoice {
    /// Reads the name of a preset, or else the text of a policy file.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        match Preset::from_name(text) {
            Some(preset) => Ok(Self::Preset(preset)),
            None => Ok(Self::Own(Arc::new(Policy::parse(text)?))),
        }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        match self {
            Self::Preset(preset) => Policy::preset(*preset),
            Self::Own(policy) => policy,
        }
    }
}
