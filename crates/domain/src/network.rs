//! What a sandbox may reach: rules, policies in layers, and the one place that decides.
//!
//! Names and addresses are checked types. [`EffectivePolicy`] decides for the DNS server, for the
//! proxy and for clients that only ask; no other code compares a host with a rule.

mod address;
mod error;
mod layers;
mod limits;
mod name;
mod path;
mod policy;
mod rule;
mod text;
mod verdict;

pub use address::{Cidr, OwnAddresses, denied_range};
pub use error::NetworkError;
pub use layers::EffectivePolicy;
pub use limits::NetworkLimits;
pub use name::{DnsName, HostPattern, NetworkHost};
pub use path::{PathPattern, decoded_path};
pub use policy::{NetworkMode, NetworkPolicy};
pub use rule::{DenyRule, NetworkRule, RuleDraft, RuleProtocol, RuleTarget};
pub use verdict::{
    Grant, NameVerdict, NetworkApproval, NetworkVerdict, PolicyDenial, PolicyLayer, PolicyOrigin,
};
