//! The policies of several parties over one sandbox, and what they decide together.
//!
//! A refusal of any layer wins. A connection needs the leave of every layer, with one exception: a
//! person's approval takes the place of the sandbox's and the template's leave, never of the
//! operator's.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use super::name::{DnsName, NetworkHost};
use super::path::decoded_path;
use super::policy::NetworkMode;
use super::rule::{DenyRule, NetworkRule, RuleProtocol};
use super::verdict::{
    Grant, NameVerdict, NetworkApproval, NetworkVerdict, PolicyDenial, PolicyLayer, PolicyOrigin,
};

/// The ports of a network without rules, and of a host about which a person is asked.
const OPEN_PORTS: [u16; 2] = [80, 443];

/// The most ports of one name that are opened.
const NAME_PORTS_MAX: usize = 64;

/// All policies over one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectivePolicy {
    layers: Vec<PolicyLayer>,
    approvals: Vec<NetworkApproval>,
}

/// The rules of one layer for a host and a port.
struct Leave<'policy> {
    origin: PolicyOrigin,
    rules: Vec<(usize, &'policy NetworkRule)>,
    /// Leave without a rule, for this protocol.
    open: Option<RuleProtocol>,
}

impl EffectivePolicy {
    /// Puts layers in order. Without a layer of the sandbox nothing is allowed.
    pub fn new(mut layers: Vec<PolicyLayer>, approvals: Vec<NetworkApproval>) -> Self {
        layers.sort_by_key(|layer| layer.origin);
        Self { layers, approvals }
    }

    /// Returns the layers, outermost first.
    pub fn layers(&self) -> &[PolicyLayer] {
        &self.layers
    }

    /// Returns the approvals.
    pub fn approvals(&self) -> &[NetworkApproval] {
        &self.approvals
    }

    /// Adds a person's leave.
    pub fn approve(&mut self, approval: NetworkApproval) {
        if !self.approvals.contains(&approval) {
            self.approvals.push(approval);
        }
    }

    /// Returns the ranges of addresses that the sandbox itself may name.
    pub fn ranges(&self) -> Vec<(super::Cidr, Vec<u16>)> {
        let rules = self.innermost().map(|layer| layer.policy.allow()).unwrap_or_default();
        let range = |rule: &NetworkRule| match rule.target() {
            super::RuleTarget::Range(range) => Some((*range, rule.ports().to_vec())),
            super::RuleTarget::Host(_) => None,
        };
        rules.iter().filter_map(range).collect()
    }

    /// Decides on a look-up, before anything is asked of a resolver.
    pub fn decide_name(&self, name: &DnsName) -> NameVerdict {
        let host = NetworkHost::Name(name.clone());
        if let Some(denial) = self.forbidden(|rule| rule.matches_all_ports(&host)) {
            return NameVerdict::Denied(denial);
        }
        let mut ports = self.ports_of(&host);
        ports.extend(
            self.approvals.iter().filter(|approval| &approval.name == name).map(|leave| leave.port),
        );
        ports.sort_unstable();
        ports.dedup();
        ports.truncate(NAME_PORTS_MAX);
        let mut denial = PolicyDenial::HostNotAllowed(PolicyOrigin::Sandbox);
        let mut open = Vec::new();
        for port in ports {
            match self.decide_connection(&host, port) {
                NetworkVerdict::Allowed(_) => open.push(port),
                NetworkVerdict::Ask => {}
                NetworkVerdict::Denied(reason) => denial = reason,
            }
        }
        if !open.is_empty() {
            return NameVerdict::Allowed(open);
        }
        let asks = |port: &u16| self.decide_connection(&host, *port) == NetworkVerdict::Ask;
        if OPEN_PORTS.iter().any(asks) {
            return NameVerdict::Ask;
        }
        if self.mode() == NetworkMode::None {
            denial = PolicyDenial::NoNetwork;
        }
        NameVerdict::Denied(denial)
    }

    /// Decides on a connection.
    pub fn decide_connection(&self, host: &NetworkHost, port: u16) -> NetworkVerdict {
        if self.mode() == NetworkMode::None {
            return NetworkVerdict::Denied(PolicyDenial::NoNetwork);
        }
        if let Some(denial) = self.forbidden(|rule| rule.matches(host, port)) {
            return NetworkVerdict::Denied(denial);
        }
        let outer = match self.leaves(host, port, |origin| origin <= PolicyOrigin::Ceiling) {
            Ok(leaves) => leaves,
            Err(denial) => return NetworkVerdict::Denied(denial),
        };
        match self.leaves(host, port, |origin| origin > PolicyOrigin::Ceiling) {
            Ok(inner) => granted(&outer.into_iter().chain(inner).collect::<Vec<_>>()),
            Err(denial) => self.without_rule(host, port, &outer, denial),
        }
    }

    /// Decides on a request within a connection that [`Self::decide_connection`] allowed. `path` is
    /// the path without the query, as it was sent.
    pub fn decide_request(
        &self,
        host: &NetworkHost,
        port: u16,
        method: &str,
        path: &str,
    ) -> NetworkVerdict {
        let grant = match self.decide_connection(host, port) {
            NetworkVerdict::Allowed(grant) => grant,
            other @ (NetworkVerdict::Ask | NetworkVerdict::Denied(_)) => return other,
        };
        if grant.origin == PolicyOrigin::Approval {
            // The operator's rules still narrow what the person allowed.
            let outer = self.leaves(host, port, |origin| origin <= PolicyOrigin::Ceiling);
            return match outer.map(|leaves| narrowed(leaves, grant.protocol, method, path)) {
                Ok(Ok(_)) => NetworkVerdict::Allowed(grant),
                Ok(Err(denial)) | Err(denial) => NetworkVerdict::Denied(denial),
            };
        }
        match self.leaves(host, port, |_| true) {
            Ok(leaves) => match narrowed(leaves, grant.protocol, method, path) {
                Ok(leaves) => granted(&leaves),
                Err(denial) => NetworkVerdict::Denied(denial),
            },
            Err(denial) => NetworkVerdict::Denied(denial),
        }
    }

    /// Returns the rule of any layer that forbids an address to which a name was resolved.
    pub fn denies_address(&self, address: IpAddr, port: u16) -> Option<PolicyDenial> {
        let host = NetworkHost::Address(address);
        self.forbidden(|rule| rule.matches(&host, port))
    }

    /// Tells whether a person is asked about unknown hosts.
    pub fn asks(&self) -> bool {
        self.innermost().is_some_and(|layer| layer.policy.ask())
    }

    /// Returns how much of the network there is: the least of all layers.
    pub fn mode(&self) -> NetworkMode {
        if self.innermost().is_none() {
            return NetworkMode::None;
        }
        let modes = self.layers.iter().map(|layer| layer.policy.mode());
        modes.min().unwrap_or(NetworkMode::None)
    }

    fn innermost(&self) -> Option<&PolicyLayer> {
        self.layers.iter().find(|layer| layer.origin == PolicyOrigin::Sandbox)
    }

    fn ports_of(&self, host: &NetworkHost) -> Vec<u16> {
        let Some(layer) = self.innermost() else {
            return Vec::new();
        };
        let rules = layer.policy.allow().iter().filter(|rule| rule.target().matches(host));
        let mut ports: Vec<u16> = rules.flat_map(|rule| rule.ports().to_vec()).collect();
        if layer.policy.mode() == NetworkMode::Open {
            ports.extend(OPEN_PORTS);
        }
        ports
    }

    fn forbidden(&self, matches: impl Fn(&DenyRule) -> bool) -> Option<PolicyDenial> {
        self.layers.iter().find_map(|layer| {
            let rule = layer.policy.deny().iter().find(|rule| matches(rule))?;
            Some(PolicyDenial::Forbidden { origin: layer.origin, rule: rule.to_string() })
        })
    }

    /// Collects the leave of the chosen layers, or says which of them gives none.
    fn leaves(
        &self,
        host: &NetworkHost,
        port: u16,
        chosen: impl Fn(PolicyOrigin) -> bool,
    ) -> Result<Vec<Leave<'_>>, PolicyDenial> {
        let layers = self.layers.iter().filter(|layer| chosen(layer.origin));
        let mut leaves = Vec::new();
        for layer in layers {
            let unrestricted = match layer.origin {
                PolicyOrigin::Floor => true,
                PolicyOrigin::Ceiling | PolicyOrigin::Template => {
                    layer.policy.mode() == NetworkMode::Open
                }
                PolicyOrigin::Sandbox | PolicyOrigin::Approval => false,
            };
            if !unrestricted {
                leaves.push(leave(layer, host, port)?);
            }
        }
        Ok(leaves)
    }

    /// Decides where the sandbox's own rules give no leave: by an approval, or by asking.
    fn without_rule(
        &self,
        host: &NetworkHost,
        port: u16,
        outer: &[Leave<'_>],
        denial: PolicyDenial,
    ) -> NetworkVerdict {
        let NetworkHost::Name(name) = host else {
            return NetworkVerdict::Denied(denial);
        };
        let protocol = match port {
            443 => RuleProtocol::Tls,
            80 => RuleProtocol::Http,
            _ => RuleProtocol::Tcp,
        };
        let approved = |leave: &NetworkApproval| &leave.name == name && leave.port == port;
        let approved = self.approvals.iter().any(approved);
        let unknown = matches!(
            denial,
            PolicyDenial::HostNotAllowed(PolicyOrigin::Sandbox)
                | PolicyDenial::PortNotAllowed(PolicyOrigin::Sandbox)
        );
        let asks = self.asks() && unknown;
        if !approved && !asks {
            return NetworkVerdict::Denied(denial);
        }
        if let Some(leave) = outer.iter().find(|leave| !leave.covers(protocol)) {
            return NetworkVerdict::Denied(PolicyDenial::ProtocolNotAllowed(leave.origin));
        }
        if approved {
            return NetworkVerdict::Allowed(Grant {
                origin: PolicyOrigin::Approval,
                index: None,
                rule: format!("approval of {name}:{port}"),
                protocol,
                intercept: outer.iter().any(Leave::needs_interception),
                secrets: Vec::new(),
                websocket: true,
            });
        }
        NetworkVerdict::Ask
    }
}

impl Leave<'_> {
    fn covers(&self, protocol: RuleProtocol) -> bool {
        self.open.is_some_and(|open| open.covers(protocol))
            || self.rules.iter().any(|(_, rule)| rule.protocol().covers(protocol))
    }

    fn needs_interception(&self) -> bool {
        self.rules.iter().any(|(_, rule)| rule.needs_interception())
    }
}

fn leave<'policy>(
    layer: &'policy PolicyLayer,
    host: &NetworkHost,
    port: u16,
) -> Result<Leave<'policy>, PolicyDenial> {
    let rules = layer.policy.allow().iter().enumerate();
    let rules: Vec<_> = rules.filter(|(_, rule)| rule.matches(host, port)).collect();
    let is_public_name = matches!(host, NetworkHost::Name(name) if name.labels() > 1);
    let open = match (layer.policy.mode(), port) {
        (NetworkMode::Open, 443) if is_public_name => Some(RuleProtocol::Tls),
        (NetworkMode::Open, 80) if is_public_name => Some(RuleProtocol::Http),
        (NetworkMode::Open | NetworkMode::List | NetworkMode::None, _) => None,
    };
    if rules.is_empty() && open.is_none() {
        let named = layer.policy.allow().iter().any(|rule| rule.target().matches(host))
            || layer.policy.mode() == NetworkMode::Open;
        return Err(if named {
            PolicyDenial::PortNotAllowed(layer.origin)
        } else {
            PolicyDenial::HostNotAllowed(layer.origin)
        });
    }
    Ok(Leave { origin: layer.origin, rules, open })
}

/// Makes one grant of the leave of every layer. The innermost layer chooses the protocol.
fn granted(leaves: &[Leave<'_>]) -> NetworkVerdict {
    let Some(innermost) = leaves.last() else {
        return NetworkVerdict::Denied(PolicyDenial::NoNetwork);
    };
    let first = innermost.rules.first();
    let protocol = first.map(|(_, rule)| rule.protocol()).or(innermost.open);
    let Some(protocol) = protocol else {
        return NetworkVerdict::Denied(PolicyDenial::ProtocolNotAllowed(innermost.origin));
    };
    if let Some(leave) = leaves.iter().find(|leave| !leave.covers(protocol)) {
        return NetworkVerdict::Denied(PolicyDenial::ProtocolNotAllowed(leave.origin));
    }
    let same_protocol = |rule: &NetworkRule| rule.protocol() == protocol;
    let intercept = leaves
        .iter()
        .flat_map(|leave| &leave.rules)
        .any(|(_, rule)| same_protocol(rule) && rule.needs_interception());
    let mut secrets: Vec<String> = innermost
        .rules
        .iter()
        .filter(|(_, rule)| same_protocol(rule))
        .flat_map(|(_, rule)| rule.secrets().to_vec())
        .collect();
    secrets.sort_unstable();
    secrets.dedup();
    // Leave without a rule is not read, so it cannot keep a WebSocket back.
    let websocket = leaves.iter().all(|leave| {
        let mut rules = leave.rules.iter();
        leave.rules.is_empty() || rules.any(|(_, rule)| rule.websocket())
    });
    NetworkVerdict::Allowed(Grant {
        origin: innermost.origin,
        index: first.map(|(index, _)| *index),
        rule: first.map_or_else(|| "mode open".to_owned(), |(_, rule)| rule.to_string()),
        protocol,
        intercept,
        secrets,
        websocket,
    })
}

/// Keeps the rules that allow a method and a path; a layer that keeps none refuses.
fn narrowed<'policy>(
    leaves: Vec<Leave<'policy>>,
    protocol: RuleProtocol,
    method: &str,
    path: &str,
) -> Result<Vec<Leave<'policy>>, PolicyDenial> {
    let mut narrowed = Vec::new();
    for leave in leaves {
        let with_paths = leave.rules.iter().any(|(_, rule)| rule.has_paths());
        let decoded = match decoded_path(path) {
            Ok(decoded) => Some(decoded),
            Err(error) if with_paths => return Err(PolicyDenial::BadPath(error.to_string())),
            Err(_) => None,
        };
        let covering = leave.rules.into_iter().filter(|(_, rule)| rule.protocol().covers(protocol));
        let by_method: Vec<_> = covering.filter(|(_, rule)| rule.matches_method(method)).collect();
        let open = leave.open.filter(|open| *open == protocol);
        if by_method.is_empty() && open.is_none() {
            return Err(PolicyDenial::MethodNotAllowed(leave.origin));
        }
        let fits = |rule: &NetworkRule| {
            decoded.as_ref().map_or(!rule.has_paths(), |decoded| rule.matches_path(decoded))
        };
        let rules: Vec<_> = by_method.into_iter().filter(|(_, rule)| fits(rule)).collect();
        if rules.is_empty() && open.is_none() {
            return Err(PolicyDenial::PathNotAllowed(leave.origin));
        }
        narrowed.push(Leave { origin: leave.origin, rules, open });
    }
    Ok(narrowed)
}
