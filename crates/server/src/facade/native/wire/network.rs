//! Networks of sandboxes, their connections, and secrets.

use schemars::JsonSchema;
use serde::Serialize;
use silica_domain::{NetworkLimits, NetworkRule, NetworkVerdict, PolicyOrigin};
use silica_egress::{ConnectionRecord, DenialRecord, NetworkUsage};
use silica_sessions::{CellNetwork, Exposure, NetworkInfo, SecretInfo};

use super::Moment;
use crate::http::long_answer::LongText;

/// The network of a sandbox, as its rules are in force
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("examples" = [{
    "mode": "list", "ask": false,
    "allow": [{"origin": "sandbox", "host": "api.example.com", "cidr": null, "ports": [443],
               "protocol": "tls", "methods": [], "paths": [], "secrets": [], "websocket": false}],
    "deny": [], "approved": [], "expose": [8000], "secrets": [],
    "limits": {"connections": 64, "connections_per_second": 20, "names": 1024,
               "bytes_up": 268_435_456, "bytes_down": 1_073_741_824,
               "bytes_per_second": 52_428_800, "idle_seconds": 300, "life_seconds": 3600},
    "usage": {"connections": 1, "connections_open": 0, "denials": 0, "bytes_up": 517,
              "bytes_down": 1256, "limit_hit": false},
}]))]
pub(crate) struct Network {
    /// How much of the network there is: nothing, what the rules allow, or every public host on ports
    /// 80 and 443
    #[schemars(extend("enum" = ["none", "list", "open"]))]
    mode: &'static str,
    /// Whether a person is asked about hosts that no rule names
    ask: bool,
    /// The rules that allow, of all who have a say. A connection needs the leave of each of them.
    allow: Vec<Rule>,
    /// The rules that forbid, of all who have a say. Each of them wins over every rule that allows.
    deny: Vec<Denial>,
    /// Hosts that a person has allowed
    approved: Vec<ApprovedHost>,
    /// Ports whose servers can be reached from outside
    expose: Vec<u16>,
    /// The names of its secrets
    secrets: Vec<String>,
    /// Its limits
    limits: Limits,
    /// What it has used
    usage: Usage,
}

/// A rule that allows connections
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Rule {
    /// Whose rule it is
    #[schemars(extend("enum" = ["operator", "key", "template", "sandbox"]))]
    origin: &'static str,
    /// A host name, or `*.` and a host name for all below it
    host: Option<String>,
    /// A range of addresses
    cidr: Option<String>,
    /// The ports
    ports: Vec<u16>,
    /// What connections must speak
    #[schemars(extend("enum" = ["tls", "http", "tcp"]))]
    protocol: Option<String>,
    /// The allowed methods; all if empty
    methods: Vec<String>,
    /// The allowed paths; all if empty
    paths: Vec<String>,
    /// The secrets that requests may carry
    secrets: Vec<String>,
    /// Whether a request may become a WebSocket
    websocket: bool,
}

impl Rule {
    fn new(origin: PolicyOrigin, rule: &NetworkRule) -> Self {
        let draft = rule.draft();
        Self {
            origin: origin.name(),
            host: draft.host,
            cidr: draft.cidr,
            ports: draft.ports,
            protocol: draft.protocol,
            methods: draft.methods,
            paths: draft.paths,
            secrets: draft.secrets,
            websocket: draft.websocket,
        }
    }
}

/// A rule that forbids connections
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Denial {
    /// Whose rule it is
    #[schemars(extend("enum" = ["operator", "key", "template", "sandbox"]))]
    origin: &'static str,
    /// The rule
    rule: String,
}

/// A host that a person has allowed
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ApprovedHost {
    /// Its name
    host: String,
    /// The port
    port: u16,
}

/// The limits of a sandbox's network
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Limits {
    /// Connections at a time
    connections: u32,
    /// New connections in a second
    connections_per_second: u32,
    /// Different host names
    names: u32,
    /// Bytes to other machines
    bytes_up: u64,
    /// Bytes from other machines
    bytes_down: u64,
    /// Bytes in a second, both ways together
    bytes_per_second: u64,
    /// How long a connection may be silent
    idle_seconds: u64,
    /// How long a connection may live
    life_seconds: u64,
}

impl From<&NetworkLimits> for Limits {
    fn from(limits: &NetworkLimits) -> Self {
        Self {
            connections: limits.connections,
            connections_per_second: limits.connections_per_second,
            names: limits.names,
            bytes_up: limits.bytes_up,
            bytes_down: limits.bytes_down,
            bytes_per_second: limits.bytes_per_second,
            idle_seconds: limits.idle.as_secs(),
            life_seconds: limits.life.as_secs(),
        }
    }
}

/// What a sandbox has used of its network
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Usage {
    /// Connections that were allowed
    connections: u64,
    /// Connections that are open
    connections_open: u64,
    /// Connections, requests and look-ups that were refused
    denials: u64,
    /// Bytes to other machines
    bytes_up: u64,
    /// Bytes from other machines
    bytes_down: u64,
    /// Whether a limit has refused anything
    limit_hit: bool,
}

impl From<NetworkUsage> for Usage {
    fn from(usage: NetworkUsage) -> Self {
        let NetworkUsage {
            bytes_up,
            bytes_down,
            connections_open,
            connections,
            denials,
            limit_hit,
        } = usage;
        Self { connections, connections_open, denials, bytes_up, bytes_down, limit_hit }
    }
}

impl From<&NetworkInfo> for Network {
    fn from(info: &NetworkInfo) -> Self {
        let rules = |layer: &silica_domain::PolicyLayer| {
            let origin = layer.origin;
            let rules = layer.policy.allow().iter();
            rules.map(|rule| Rule::new(origin, rule)).collect::<Vec<_>>()
        };
        let denials = |layer: &silica_domain::PolicyLayer| {
            let origin = layer.origin.name();
            let rules = layer.policy.deny().iter();
            rules.map(|rule| Denial { origin, rule: rule.to_string() }).collect::<Vec<_>>()
        };
        let approved = |approval: &silica_domain::NetworkApproval| ApprovedHost {
            host: approval.name.as_str().to_owned(),
            port: approval.port,
        };
        Self {
            mode: info.mode.name(),
            ask: info.ask,
            allow: info.layers.iter().flat_map(rules).collect(),
            deny: info.layers.iter().flat_map(denials).collect(),
            approved: info.approvals.iter().map(approved).collect(),
            expose: Vec::new(),
            secrets: info.secrets.clone(),
            limits: (&info.limits).into(),
            usage: info.usage.into(),
        }
    }
}

impl Network {
    /// Adds the ports that can be reached from outside.
    pub(crate) fn exposing(mut self, exposure: &Exposure) -> Self {
        self.expose = exposure.ports().into_iter().flatten().copied().collect();
        self
    }

    /// Renders a sandbox without a network.
    pub(crate) fn none() -> Self {
        Self {
            mode: silica_domain::NetworkMode::None.name(),
            ask: false,
            allow: Vec::new(),
            deny: Vec::new(),
            approved: Vec::new(),
            expose: Vec::new(),
            secrets: Vec::new(),
            limits: (&NetworkLimits::default()).into(),
            usage: NetworkUsage::default().into(),
        }
    }
}

/// What the rules say about a connection
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("examples" = [{
    "allowed": true, "ask": false, "rule": "api.example.com:443/tls", "origin": "sandbox",
    "code": null, "reason": null,
}]))]
pub(crate) struct NetworkCheck {
    /// Whether it may be made
    allowed: bool,
    /// Whether a person would be asked
    ask: bool,
    /// The rule that allows it
    rule: Option<String>,
    /// Whose rule that is
    origin: Option<&'static str>,
    /// Why it may not be made, for programs
    code: Option<&'static str>,
    /// Why it may not be made, for people
    reason: Option<String>,
}

impl From<&NetworkVerdict> for NetworkCheck {
    fn from(verdict: &NetworkVerdict) -> Self {
        let unknown =
            Self { allowed: false, ask: false, rule: None, origin: None, code: None, reason: None };
        match verdict {
            NetworkVerdict::Allowed(grant) => Self {
                allowed: true,
                rule: Some(grant.rule.clone()),
                origin: Some(grant.origin.name()),
                ..unknown
            },
            NetworkVerdict::Ask => Self { ask: true, ..unknown },
            NetworkVerdict::Denied(denial) => {
                Self { code: Some(denial.code()), reason: Some(denial.to_string()), ..unknown }
            }
        }
    }
}

/// Connections of a sandbox
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConnectionList {
    /// Those that are open, and the last 1000 that ended
    pub(crate) connections: Vec<Connection>,
}

impl LongText for ConnectionList {
    fn bytes_least(&self) -> u64 {
        self.connections.len() as u64 * CONNECTION_BYTES_LEAST
    }
}

/// The length of the text of one connection, about and at least.
const CONNECTION_BYTES_LEAST: u64 = 200;

/// A connection of a sandbox
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Connection {
    /// The name or address that the program asked for
    host: String,
    /// The port
    port: u16,
    /// The address that was dialled
    address: Option<String>,
    /// What was done with its bytes: `pass` for TLS from end to end, `intercept` for TLS that is read,
    /// `http`, `tcp`
    kind: &'static str,
    /// Whether it is open
    #[schemars(extend("enum" = ["open", "closed", "refused"]))]
    state: &'static str,
    /// The rule that allowed it
    rule: Option<String>,
    /// Whose rule it is
    origin: Option<String>,
    /// Why it was refused or ended, for programs
    code: Option<String>,
    /// Why it was refused or ended, for people
    message: Option<String>,
    /// Bytes to the far side
    bytes_up: u64,
    /// Bytes from the far side
    bytes_down: u64,
    /// How long it lasted
    duration_ms: u64,
    /// How many requests were read
    request_count: u64,
    /// The first of these requests
    requests: Vec<Request>,
}

/// A request that was read
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Request {
    /// Its method
    method: String,
    /// Its path, without the query
    path: String,
    /// The status of its answer
    status: u16,
    /// The names of the secrets that went with it
    secrets: Vec<String>,
}

impl From<ConnectionRecord> for Connection {
    fn from(record: ConnectionRecord) -> Self {
        let request = |request: silica_egress::RequestRecord| {
            let silica_egress::RequestRecord { method, path, status, secrets } = request;
            Request { method, path, status, secrets }
        };
        Self {
            host: record.host,
            port: record.port,
            address: record.address.map(|address| address.to_string()),
            kind: record.kind.name(),
            state: record.state.name(),
            rule: record.rule,
            origin: record.origin,
            code: record.code,
            message: record.message,
            bytes_up: record.bytes_up,
            bytes_down: record.bytes_down,
            duration_ms: record.duration_ms,
            request_count: record.request_count,
            requests: record.requests.into_iter().map(request).collect(),
        }
    }
}

/// What a cell did with the network of its sandbox
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CellNetwork")]
pub(crate) struct NetworkUse {
    /// Connections that were allowed
    connections: u64,
    /// Bytes to other machines
    bytes_up: u64,
    /// Bytes from other machines
    bytes_down: u64,
    /// The first refusals. They are the sandbox's rules at work, not errors of the far side.
    denied: Vec<Refusal>,
    /// Whether a limit of the network was hit
    limit_hit: bool,
}

/// A connection, request or look-up that was refused
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Refusal {
    /// The name or address that the program asked for
    host: String,
    /// The port; 0 for a look-up
    port: u16,
    /// Why, for programs
    code: String,
    /// Why, for people
    message: String,
    /// How often
    count: u64,
}

impl From<&CellNetwork> for NetworkUse {
    fn from(network: &CellNetwork) -> Self {
        let refusal = |denial: &DenialRecord| Refusal {
            host: denial.host.clone(),
            port: denial.port,
            code: denial.code.clone(),
            message: denial.message.clone(),
            count: denial.count,
        };
        Self {
            connections: network.connections,
            bytes_up: network.bytes_up,
            bytes_down: network.bytes_down,
            denied: network.denied.iter().map(refusal).collect(),
            limit_hit: network.limit_hit,
        }
    }
}

/// A secret, without its value
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("examples" = [{
    "name": "openai", "hosts": ["api.openai.com"], "in": ["header"], "env": "OPENAI_API_KEY",
    "prefix": "sk-", "inject": null, "offered": false,
    "created_at": "2026-01-01T00:00:00.000000Z", "changed_at": "2026-01-01T00:00:00.000000Z",
}]))]
pub(crate) struct Secret {
    /// Its name
    name: String,
    /// The hosts it may go to
    hosts: Vec<String>,
    /// The parts of a request in which its placeholder is replaced
    #[serde(rename = "in")]
    places: Vec<String>,
    /// The variable that holds its placeholder
    env: Option<String>,
    /// What its placeholder begins with
    prefix: Option<String>,
    /// A header that is set without a placeholder
    inject: Option<Injection>,
    /// Whether it is the operator's
    offered: bool,
    /// When it was stored
    created_at: Option<Moment>,
    /// When it was replaced last
    changed_at: Option<Moment>,
}

/// A header that is set without a placeholder
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Injection {
    /// Its name
    header: String,
    /// Its value, with `{}` for the secret
    value: String,
}

impl From<SecretInfo> for Secret {
    fn from(secret: SecretInfo) -> Self {
        let SecretInfo { name, terms, created_at, changed_at } = secret;
        let places = if terms.places.is_empty() { vec!["header".to_owned()] } else { terms.places };
        Self {
            name,
            hosts: terms.hosts,
            places,
            env: terms.env,
            prefix: terms.prefix,
            inject: terms.inject.map(|(header, value)| Injection { header, value }),
            offered: created_at.is_none(),
            created_at: created_at.map(Moment),
            changed_at: changed_at.map(Moment),
        }
    }
}

/// Secrets
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SecretList {
    /// The key's own and those that the operator offers, by name
    pub(crate) secrets: Vec<Secret>,
}
