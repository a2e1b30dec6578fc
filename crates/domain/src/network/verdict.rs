//! What layers of policies are made of, and what they decide.

use std::fmt;

use super::name::DnsName;
use super::policy::NetworkPolicy;
use super::rule::RuleProtocol;

/// Where a policy comes from, from the outermost to the innermost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyOrigin {
    /// What the operator forbids for all. Only its mode `none` and its `deny` count.
    Floor,
    /// What the key may ask for.
    Ceiling,
    /// The template.
    Template,
    /// The sandbox.
    Sandbox,
    /// A person's approval.
    Approval,
}

impl PolicyOrigin {
    /// Returns the origin's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "operator",
            Self::Ceiling => "key",
            Self::Template => "template",
            Self::Sandbox => "sandbox",
            Self::Approval => "approval",
        }
    }
}

/// The policy of one party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyLayer {
    /// Where it comes from.
    pub origin: PolicyOrigin,
    /// What it says.
    pub policy: NetworkPolicy,
}

/// A person's leave for one host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NetworkApproval {
    /// The host.
    pub name: DnsName,
    /// The port.
    pub port: u16,
}

/// Leave for a connection or a request, and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whose rule it is.
    pub origin: PolicyOrigin,
    /// The rule's place in its list, if a rule allowed it.
    pub index: Option<usize>,
    /// The rule as text.
    pub rule: String,
    /// What the connection must speak.
    pub protocol: RuleProtocol,
    /// Whether each request has to be read and judged.
    pub intercept: bool,
    /// The names of the secrets that may be used.
    pub secrets: Vec<String>,
    /// Whether a request may become a WebSocket.
    pub websocket: bool,
}

/// Why the policy refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyDenial {
    /// The sandbox has no network.
    NoNetwork,
    /// No rule names the host.
    HostNotAllowed(PolicyOrigin),
    /// Rules name the host, but not the port.
    PortNotAllowed(PolicyOrigin),
    /// Rules name host and port, but for another protocol.
    ProtocolNotAllowed(PolicyOrigin),
    /// A rule forbids it.
    Forbidden {
        /// Whose rule it is.
        origin: PolicyOrigin,
        /// The rule as text.
        rule: String,
    },
    /// No rule for the host allows the method.
    MethodNotAllowed(PolicyOrigin),
    /// No rule for the host allows the path.
    PathNotAllowed(PolicyOrigin),
    /// The path cannot be compared with rules.
    BadPath(String),
}

impl PolicyDenial {
    /// Returns a stable name of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoNetwork => "no_network",
            Self::HostNotAllowed(_) => "host_not_allowed",
            Self::PortNotAllowed(_) => "port_not_allowed",
            Self::ProtocolNotAllowed(_) => "protocol_not_allowed",
            Self::Forbidden { .. } => "host_denied",
            Self::MethodNotAllowed(_) => "method_not_allowed",
            Self::PathNotAllowed(_) => "path_not_allowed",
            Self::BadPath(_) => "bad_path",
        }
    }
}

impl fmt::Display for PolicyDenial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |origin: &PolicyOrigin| format!("the rules of the {}", origin.name());
        match self {
            Self::NoNetwork => write!(formatter, "the sandbox has no network"),
            Self::HostNotAllowed(origin) => {
                write!(formatter, "{} do not name the host", of(origin))
            }
            Self::PortNotAllowed(origin) => {
                write!(formatter, "{} do not allow this port of the host", of(origin))
            }
            Self::ProtocolNotAllowed(origin) => {
                write!(formatter, "{} do not allow this protocol for the host", of(origin))
            }
            Self::Forbidden { origin, rule } => {
                write!(formatter, "{} forbid it: {rule}", of(origin))
            }
            Self::MethodNotAllowed(origin) => {
                write!(formatter, "{} do not allow this method for the host", of(origin))
            }
            Self::PathNotAllowed(origin) => {
                write!(formatter, "{} do not allow this path of the host", of(origin))
            }
            Self::BadPath(why) => write!(formatter, "{why}"),
        }
    }
}

/// What the policy says about a connection or a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkVerdict {
    /// It may be made.
    Allowed(Grant),
    /// A person has to be asked.
    Ask,
    /// It may not be made.
    Denied(PolicyDenial),
}

/// What the policy says about a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameVerdict {
    /// The name gets an address, on which these ports are open.
    Allowed(Vec<u16>),
    /// The name gets an address; a connection to it asks a person.
    Ask,
    /// The name does not exist.
    Denied(PolicyDenial),
}
