//! One rule: where to, on which ports, by which protocol, and for HTTP which requests.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use super::address::Cidr;
use super::error::{NetworkError, excerpt};
use super::name::{HostPattern, NetworkHost};
use super::path::PathPattern;

const PORTS_MAX: usize = 16;
const METHODS_MAX: usize = 16;
const METHOD_BYTES_MAX: usize = 32;
const PATHS_MAX: usize = 32;
const SECRETS_MAX: usize = 16;
const SECRET_NAME_BYTES_MAX: usize = 64;

/// What a connection must speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleProtocol {
    /// TLS whose hello names the host.
    Tls,
    /// Plain HTTP/1.1.
    Http,
    /// Any bytes.
    Tcp,
}

impl RuleProtocol {
    /// Returns the protocol's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Tcp => "tcp",
        }
    }

    /// Tells whether leave for this protocol is leave for the other: any bytes may be TLS or HTTP.
    pub(super) fn covers(self, other: Self) -> bool {
        self == other || self == Self::Tcp
    }
}

impl FromStr for RuleProtocol {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        [Self::Tls, Self::Http, Self::Tcp]
            .into_iter()
            .find(|protocol| protocol.name() == text)
            .ok_or_else(|| NetworkError::Protocol(excerpt(text)))
    }
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleTarget {
    /// Hosts by name.
    Host(HostPattern),
    /// Addresses that the guest uses itself.
    Range(Cidr),
}

impl RuleTarget {
    fn parse(host: Option<&str>, cidr: Option<&str>) -> Result<Self, NetworkError> {
        match (host, cidr) {
            (Some(host), None) => host.parse().map(Self::Host),
            (None, Some(cidr)) => cidr.parse().map(Self::Range),
            (Some(_), Some(_)) | (None, None) => Err(NetworkError::Target),
        }
    }

    /// Tells whether a host is meant.
    pub fn matches(&self, host: &NetworkHost) -> bool {
        match (self, host) {
            (Self::Host(pattern), NetworkHost::Name(name)) => pattern.matches(name),
            (Self::Range(range), NetworkHost::Address(address)) => range.contains(*address),
            (Self::Host(_), NetworkHost::Address(_)) | (Self::Range(_), NetworkHost::Name(_)) => {
                false
            }
        }
    }
}

impl fmt::Display for RuleTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(pattern) => write!(formatter, "{pattern}"),
            // In brackets, since a port may follow.
            Self::Range(range) if range.first().is_ipv6() => write!(formatter, "[{range}]"),
            Self::Range(range) => write!(formatter, "{range}"),
        }
    }
}

/// A rule as it is written, before it is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleDraft {
    /// A host name or a wildcard pattern.
    pub host: Option<String>,
    /// A range of addresses.
    pub cidr: Option<String>,
    /// The ports; none means the protocol's own.
    pub ports: Vec<u16>,
    /// `tls`, `http` or `tcp`; none means the one of port 443 or 80.
    pub protocol: Option<String>,
    /// Allowed methods; none means all.
    pub methods: Vec<String>,
    /// Patterns of allowed paths; none means all.
    pub paths: Vec<String>,
    /// Names of the secrets that requests may carry.
    pub secrets: Vec<String>,
    /// Whether a request may become a WebSocket.
    pub websocket: bool,
}

/// A checked rule that allows connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRule {
    target: RuleTarget,
    ports: Vec<u16>,
    protocol: RuleProtocol,
    methods: Vec<String>,
    paths: Vec<PathPattern>,
    secrets: Vec<String>,
    websocket: bool,
}

impl NetworkRule {
    /// Checks a rule.
    pub fn parse(draft: &RuleDraft) -> Result<Self, NetworkError> {
        let target = RuleTarget::parse(draft.host.as_deref(), draft.cidr.as_deref())?;
        let named = draft.protocol.as_deref().map(str::parse).transpose()?;
        let ports = checked_ports(&draft.ports, default_port(named))?;
        let protocol = match named {
            Some(protocol) => protocol,
            None => protocol_of(&ports)?,
        };
        at_most("methods", draft.methods.len(), METHODS_MAX)?;
        at_most("paths", draft.paths.len(), PATHS_MAX)?;
        at_most("secrets", draft.secrets.len(), SECRETS_MAX)?;
        let methods = draft.methods.iter().map(|method| checked_method(method));
        let secrets = draft.secrets.iter().map(|name| checked_secret(name));
        let rule = Self {
            target,
            ports,
            protocol,
            methods: methods.collect::<Result<_, _>>()?,
            paths: draft.paths.iter().map(|path| path.parse()).collect::<Result<_, _>>()?,
            secrets: secrets.collect::<Result<_, _>>()?,
            websocket: draft.websocket,
        };
        rule.check_fields()?;
        Ok(rule)
    }

    fn check_fields(&self) -> Result<(), NetworkError> {
        let fields = [
            ("methods", !self.methods.is_empty()),
            ("paths", !self.paths.is_empty()),
            ("secrets", !self.secrets.is_empty()),
            ("websocket", self.websocket),
        ];
        for (field, used) in fields {
            let refuse = |why| Err(NetworkError::Field { field, why });
            match (&self.target, self.protocol) {
                _ if !used => {}
                (RuleTarget::Range(_), _) => return refuse("it needs `host`, not `cidr`"),
                (RuleTarget::Host(_), RuleProtocol::Tcp) => {
                    return refuse("its protocol is tcp, in which no request is seen");
                }
                (RuleTarget::Host(_), RuleProtocol::Http) if field == "secrets" => {
                    return refuse("its protocol is http, and secrets go over tls alone");
                }
                (RuleTarget::Host(_), RuleProtocol::Http | RuleProtocol::Tls) => {}
            }
        }
        Ok(())
    }

    /// Returns the rule as it would be written, with its defaults filled in.
    pub fn draft(&self) -> RuleDraft {
        let (host, cidr) = match &self.target {
            RuleTarget::Host(pattern) => (Some(pattern.to_string()), None),
            RuleTarget::Range(range) => (None, Some(range.to_string())),
        };
        RuleDraft {
            host,
            cidr,
            ports: self.ports.clone(),
            protocol: Some(self.protocol.name().to_owned()),
            methods: self.methods.clone(),
            paths: self.paths.iter().map(PathPattern::to_string).collect(),
            secrets: self.secrets.clone(),
            websocket: self.websocket,
        }
    }

    /// Returns what the rule is about.
    pub fn target(&self) -> &RuleTarget {
        &self.target
    }

    /// Returns its ports.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Returns what connections must speak.
    pub fn protocol(&self) -> RuleProtocol {
        self.protocol
    }

    /// Returns the names of the secrets that requests may carry.
    pub fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// Tells whether a request may become a WebSocket.
    pub fn websocket(&self) -> bool {
        self.websocket
    }

    /// Tells whether requests must be read to enforce the rule.
    pub fn needs_interception(&self) -> bool {
        !(self.methods.is_empty() && self.paths.is_empty() && self.secrets.is_empty())
    }

    /// Returns how many patterns of paths the rule has.
    pub(super) fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// Tells whether the rule has patterns of paths.
    pub(super) fn has_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    pub(super) fn matches(&self, host: &NetworkHost, port: u16) -> bool {
        self.ports.contains(&port) && self.target.matches(host)
    }

    pub(super) fn matches_method(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|allowed| allowed == method)
    }

    pub(super) fn matches_path(&self, decoded: &str) -> bool {
        self.paths.is_empty() || self.paths.iter().any(|pattern| pattern.matches(decoded))
    }
}

impl fmt::Display for NetworkRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        write!(formatter, "{}:{}/{}", self.target, ports.join(","), self.protocol.name())?;
        if !self.methods.is_empty() {
            write!(formatter, " {}", self.methods.join(","))?;
        }
        for path in &self.paths {
            write!(formatter, " {path}")?;
        }
        Ok(())
    }
}

/// A rule that forbids connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenyRule {
    target: RuleTarget,
    ports: Vec<u16>,
}

impl DenyRule {
    /// Checks a rule. No ports means all of them; what only allowing rules have is refused.
    pub fn parse(draft: &RuleDraft) -> Result<Self, NetworkError> {
        let target = RuleTarget::parse(draft.host.as_deref(), draft.cidr.as_deref())?;
        let fields = [
            ("protocol", draft.protocol.is_some()),
            ("methods", !draft.methods.is_empty()),
            ("paths", !draft.paths.is_empty()),
            ("secrets", !draft.secrets.is_empty()),
            ("websocket", draft.websocket),
        ];
        if let Some((field, _)) = fields.into_iter().find(|(_, used)| *used) {
            let why = "a rule of `deny` has a target and ports alone";
            return Err(NetworkError::Field { field, why });
        }
        let ports =
            if draft.ports.is_empty() { Vec::new() } else { checked_ports(&draft.ports, 0)? };
        Ok(Self { target, ports })
    }

    /// Returns the rule as it would be written.
    pub fn draft(&self) -> RuleDraft {
        let (host, cidr) = match &self.target {
            RuleTarget::Host(pattern) => (Some(pattern.to_string()), None),
            RuleTarget::Range(range) => (None, Some(range.to_string())),
        };
        RuleDraft { host, cidr, ports: self.ports.clone(), ..RuleDraft::default() }
    }

    /// Tells whether every port of a host is forbidden.
    pub(super) fn matches_all_ports(&self, host: &NetworkHost) -> bool {
        self.ports.is_empty() && self.target.matches(host)
    }

    pub(super) fn matches(&self, host: &NetworkHost, port: u16) -> bool {
        (self.ports.is_empty() || self.ports.contains(&port)) && self.target.matches(host)
    }
}

impl fmt::Display for DenyRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.target)?;
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        if ports.is_empty() { Ok(()) } else { write!(formatter, ":{}", ports.join(",")) }
    }
}

fn default_port(protocol: Option<RuleProtocol>) -> u16 {
    match protocol {
        Some(RuleProtocol::Http) => 80,
        // A rule for any bytes has no port of its own: zero is refused.
        Some(RuleProtocol::Tcp) => 0,
        Some(RuleProtocol::Tls) | None => 443,
    }
}

fn protocol_of(ports: &[u16]) -> Result<RuleProtocol, NetworkError> {
    match ports {
        [443] => Ok(RuleProtocol::Tls),
        [80] => Ok(RuleProtocol::Http),
        _ => {
            let unusual = ports.iter().copied().find(|port| ![80, 443].contains(port));
            Err(NetworkError::ProtocolMissing(unusual.unwrap_or(80)))
        }
    }
}

fn checked_ports(ports: &[u16], default: u16) -> Result<Vec<u16>, NetworkError> {
    let mut checked = if ports.is_empty() { vec![default] } else { ports.to_vec() };
    checked.sort_unstable();
    let different = checked.windows(2).all(|pair| pair[0] != pair[1]);
    if checked.len() > PORTS_MAX || checked.contains(&0) || !different {
        return Err(NetworkError::Ports { most: PORTS_MAX });
    }
    Ok(checked)
}

fn checked_method(method: &str) -> Result<String, NetworkError> {
    let upper = method.to_ascii_uppercase();
    let known_form = (1..=METHOD_BYTES_MAX).contains(&upper.len())
        && upper.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    if !known_form || upper == "TRACE" || upper == "CONNECT" {
        return Err(NetworkError::Method(excerpt(method)));
    }
    Ok(upper)
}

fn checked_secret(name: &str) -> Result<String, NetworkError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !(1..=SECRET_NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(allowed) {
        return Err(NetworkError::SecretName(excerpt(name)));
    }
    Ok(name.to_owned())
}

pub(super) fn at_most(what: &'static str, count: usize, most: usize) -> Result<(), NetworkError> {
    if count > most { Err(NetworkError::TooMany { what, count, most }) } else { Ok(()) }
}
