//! The nouns of Silica: limits, outcomes, results, containment, tiers, ids, network policies. No
//! I/O, no async, no serde.
//!
//! Each boundary (wire, HTTP, command line, store) owns its own shape and converts from and to
//! these.

mod branching;
mod containment;
mod ids;
mod limits;
mod network;
mod outcome;
mod process;
mod result;
mod tier;

pub use branching::{BranchOptions, Conflict, LeftBehind, LeftKind, Randomness};
pub use containment::{Containment, Enforcement, Measure};
pub use ids::{CellId, CommandId, ItemKind, KernelId, UnknownId, WatcherId};
pub use limits::{Limit, LimitError, LimitScope, LimitUnit, LimitValues, Limits, LimitsMax};
pub use network::{
    Cidr, DenyRule, DnsName, EffectivePolicy, Grant, HostPattern, NameVerdict, NetworkApproval,
    NetworkError, NetworkHost, NetworkLimits, NetworkMode, NetworkPolicy, NetworkRule,
    NetworkVerdict, OwnAddresses, PathPattern, PolicyDenial, PolicyLayer, PolicyOrigin, RuleDraft,
    RuleProtocol, RuleTarget, decoded_path, denied_range,
};
pub use outcome::{LimitHit, Outcome};
pub use process::{Exit, TerminalSize, Usage};
pub use result::{Bundle, CellError, CommKind, CommMessage, Display, Payload};
pub use tier::{Tier, UnknownTier};
