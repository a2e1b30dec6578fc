//! The messages between the server and the process, and their shapes of the domain's types.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use silica_domain::{
    DenyRule, EffectivePolicy, NetworkApproval, NetworkError, NetworkLimits, NetworkPolicy,
    NetworkRule, PolicyLayer, PolicyOrigin, RuleDraft,
};

use crate::events::{
    ConnectionRecord, DenialRecord, HostAnswer, ModelTokens, NetworkQuestion, NetworkUsage,
};
use crate::secret::{BoundSecret, HeaderInjection, SecretError, SecretPlace, SecretValue};
use crate::settings::{EgressSettings, UpstreamProxy};
use crate::sockets::SocketSpec;

/// A message to the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// The first message.
    Configure(Box<ConfigureOrder>),
    /// Gives a sandbox its network. Descriptors: those of `first_sockets`.
    Attach(Box<AttachOrder>),
    /// Replaces the policy.
    Policy { request: u64, sandbox: u64, policy: PolicyShape },
    /// Replaces the secrets.
    Secrets { request: u64, sandbox: u64, secrets: Vec<SecretShape> },
    /// Takes the network away.
    Detach { request: u64, sandbox: u64 },
    /// The sockets of `Report::NeedSockets`, or why there are none.
    Sockets { request: u64, error: Option<String> },
    /// The answer to `Report::Ask`. Several may follow one question.
    Answer { question: u64, answer: AnswerShape },
    /// Asks for connections.
    Connections { request: u64, sandbox: u64 },
    /// Asks for the usage.
    Usage { request: u64, sandbox: u64 },
}

/// What the process needs before anything else.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ConfigureOrder {
    pub(crate) authority_name: String,
    pub(crate) authority_key_pem: SecretText,
    pub(crate) settings: SettingsShape,
}

/// A sandbox that gets a network.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AttachOrder {
    pub(crate) request: u64,
    pub(crate) sandbox: u64,
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) policy: PolicyShape,
    pub(crate) secrets: Vec<SecretShape>,
    pub(crate) limits: LimitsShape,
    /// Names that have an address already, by the address' place in the range.
    pub(crate) names: Vec<(String, u32)>,
    /// What an earlier process counted.
    pub(crate) used: NetworkUsage,
}

/// What becomes of a question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnswerShape {
    /// A person was asked, under this id.
    Pending(String),
    /// The person decided.
    Decided(HostAnswer),
    /// The question was not accepted.
    Refused(String),
}

/// A message of the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// It is configured.
    Ready,
    /// It cannot be configured.
    Failed(String),
    /// An order was carried out.
    Done { request: u64 },
    /// An order could not be carried out.
    Refused { request: u64, message: String },
    /// The reply to `Order::Connections`.
    Connections { request: u64, records: Vec<ConnectionRecord> },
    /// The reply to `Order::Usage`.
    Usage { request: u64, usage: NetworkUsage },
    /// Sockets are needed.
    NeedSockets { request: u64, sandbox: u64, specs: Vec<SocketSpec> },
    /// A name got an address.
    Named { sandbox: u64, name: String, place: u32 },
    /// What a sandbox has used by now.
    Used { sandbox: u64, usage: NetworkUsage },
    /// A connection ended.
    Finished { sandbox: u64, record: Box<ConnectionRecord> },
    /// Something was refused.
    Denied { sandbox: u64, denial: DenialRecord },
    /// A model answered.
    Tokens { sandbox: u64, tokens: ModelTokens },
    /// A question for a person.
    Ask { question: u64, text: NetworkQuestion },
    /// No connection waits for the answer any more.
    AskOver { question: u64 },
}

/// A text that prints as `****`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretText(pub(crate) String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("****")
    }
}

/// The shape of [`EgressSettings`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SettingsShape {
    private_allowed: Vec<String>,
    listeners: Vec<SocketAddr>,
    extra_roots_pem: String,
    hosts: Vec<(String, IpAddr)>,
    upstream_proxy: Option<(String, u16, Option<SecretText>)>,
    dns_timeout_ms: u64,
    ask_timeout_ms: u64,
    key_limits: LimitsShape,
    server_limits: LimitsShape,
}

impl From<&EgressSettings> for SettingsShape {
    fn from(settings: &EgressSettings) -> Self {
        let proxy = settings.upstream_proxy.as_ref().map(|proxy| {
            let authorization = proxy.authorization.clone().map(SecretText);
            (proxy.host.clone(), proxy.port, authorization)
        });
        let hosts = settings.hosts.iter().map(|(name, address)| (name.to_string(), *address));
        Self {
            private_allowed: settings.private_allowed.iter().map(ToString::to_string).collect(),
            listeners: settings.listeners.clone(),
            extra_roots_pem: settings.extra_roots_pem.clone(),
            hosts: hosts.collect(),
            upstream_proxy: proxy,
            dns_timeout_ms: settings.dns_timeout.as_millis() as u64,
            ask_timeout_ms: settings.ask_timeout.as_millis() as u64,
            key_limits: (&settings.key_limits).into(),
            server_limits: (&settings.server_limits).into(),
        }
    }
}

impl TryFrom<SettingsShape> for EgressSettings {
    type Error = NetworkError;

    fn try_from(shape: SettingsShape) -> Result<Self, NetworkError> {
        let ranges = shape.private_allowed.iter().map(|range| range.parse());
        let hosts = shape.hosts.into_iter().map(|(name, address)| Ok((name.parse()?, address)));
        let upstream_proxy = shape.upstream_proxy.map(|(host, port, authorization)| {
            UpstreamProxy { host, port, authorization: authorization.map(|text| text.0) }
        });
        Ok(Self {
            private_allowed: ranges.collect::<Result<_, _>>()?,
            listeners: shape.listeners,
            extra_roots_pem: shape.extra_roots_pem,
            hosts: hosts.collect::<Result<_, _>>()?,
            upstream_proxy,
            dns_timeout: Duration::from_millis(shape.dns_timeout_ms),
            ask_timeout: Duration::from_millis(shape.ask_timeout_ms),
            key_limits: shape.key_limits.into(),
            server_limits: shape.server_limits.into(),
        })
    }
}

/// The shape of [`NetworkLimits`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LimitsShape {
    connections: u32,
    connections_per_second: u32,
    connections_burst: u32,
    lookups_per_second: u32,
    names: u32,
    bytes_up: u64,
    bytes_down: u64,
    bytes_per_second: u64,
    idle_ms: u64,
    life_ms: u64,
}

impl From<&NetworkLimits> for LimitsShape {
    fn from(limits: &NetworkLimits) -> Self {
        Self {
            connections: limits.connections,
            connections_per_second: limits.connections_per_second,
            connections_burst: limits.connections_burst,
            lookups_per_second: limits.lookups_per_second,
            names: limits.names,
            bytes_up: limits.bytes_up,
            bytes_down: limits.bytes_down,
            bytes_per_second: limits.bytes_per_second,
            idle_ms: limits.idle.as_millis() as u64,
            life_ms: limits.life.as_millis() as u64,
        }
    }
}

impl From<LimitsShape> for NetworkLimits {
    fn from(shape: LimitsShape) -> Self {
        Self {
            connections: shape.connections,
            connections_per_second: shape.connections_per_second,
            connections_burst: shape.connections_burst,
            lookups_per_second: shape.lookups_per_second,
            names: shape.names,
            bytes_up: shape.bytes_up,
            bytes_down: shape.bytes_down,
            bytes_per_second: shape.bytes_per_second,
            idle: Duration::from_millis(shape.idle_ms),
            life: Duration::from_millis(shape.life_ms),
        }
    }
}

/// The shape of [`EffectivePolicy`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PolicyShape {
    layers: Vec<LayerShape>,
    approvals: Vec<(String, u16)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct LayerShape {
    origin: String,
    mode: String,
    allow: Vec<RuleShape>,
    deny: Vec<RuleShape>,
    ask: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct RuleShape {
    host: Option<String>,
    cidr: Option<String>,
    ports: Vec<u16>,
    protocol: Option<String>,
    methods: Vec<String>,
    paths: Vec<String>,
    secrets: Vec<String>,
    websocket: bool,
}

impl From<RuleDraft> for RuleShape {
    fn from(draft: RuleDraft) -> Self {
        Self {
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

impl From<RuleShape> for RuleDraft {
    fn from(shape: RuleShape) -> Self {
        Self {
            host: shape.host,
            cidr: shape.cidr,
            ports: shape.ports,
            protocol: shape.protocol,
            methods: shape.methods,
            paths: shape.paths,
            secrets: shape.secrets,
            websocket: shape.websocket,
        }
    }
}

const ORIGINS: [PolicyOrigin; 5] = [
    PolicyOrigin::Floor,
    PolicyOrigin::Ceiling,
    PolicyOrigin::Template,
    PolicyOrigin::Sandbox,
    PolicyOrigin::Approval,
];

impl From<&EffectivePolicy> for PolicyShape {
    fn from(policy: &EffectivePolicy) -> Self {
        let layer = |layer: &PolicyLayer| LayerShape {
            origin: layer.origin.name().to_owned(),
            mode: layer.policy.mode().name().to_owned(),
            allow: layer.policy.allow().iter().map(|rule| rule.draft().into()).collect(),
            deny: layer.policy.deny().iter().map(|rule| rule.draft().into()).collect(),
            ask: layer.policy.ask(),
        };
        let approval = |approval: &NetworkApproval| (approval.name.to_string(), approval.port);
        Self {
            layers: policy.layers().iter().map(layer).collect(),
            approvals: policy.approvals().iter().map(approval).collect(),
        }
    }
}

impl TryFrom<PolicyShape> for EffectivePolicy {
    type Error = NetworkError;

    fn try_from(shape: PolicyShape) -> Result<Self, NetworkError> {
        let layers = shape.layers.into_iter().map(layer).collect::<Result<_, _>>()?;
        let approvals = shape.approvals.into_iter().map(|(name, port)| {
            let name = name.parse()?;
            Ok(NetworkApproval { name, port })
        });
        Ok(Self::new(layers, approvals.collect::<Result<_, _>>()?))
    }
}

fn layer(shape: LayerShape) -> Result<PolicyLayer, NetworkError> {
    let origin = ORIGINS.into_iter().find(|origin| origin.name() == shape.origin);
    let allow = shape.allow.into_iter().map(|rule| NetworkRule::parse(&rule.into()));
    let deny = shape.deny.into_iter().map(|rule| DenyRule::parse(&rule.into()));
    let policy = NetworkPolicy::new(
        shape.mode.parse()?,
        allow.collect::<Result<_, _>>()?,
        deny.collect::<Result<_, _>>()?,
        shape.ask,
    )?;
    let origin = origin.ok_or(NetworkError::Mode(shape.origin))?;
    Ok(PolicyLayer { origin, policy })
}

/// The shape of [`BoundSecret`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SecretShape {
    name: String,
    placeholder: String,
    value: SecretValue,
    hosts: Vec<String>,
    places: Vec<SecretPlace>,
    inject: Option<HeaderInjection>,
    counts_tokens: bool,
}

impl From<&BoundSecret> for SecretShape {
    fn from(secret: &BoundSecret) -> Self {
        Self {
            name: secret.name.clone(),
            placeholder: secret.placeholder.clone(),
            value: secret.value.clone(),
            hosts: secret.hosts.iter().map(ToString::to_string).collect(),
            places: secret.places.clone(),
            inject: secret.inject.clone(),
            counts_tokens: secret.counts_tokens,
        }
    }
}

impl TryFrom<SecretShape> for BoundSecret {
    type Error = SecretError;

    fn try_from(shape: SecretShape) -> Result<Self, SecretError> {
        Ok(Self {
            name: shape.name,
            placeholder: shape.placeholder,
            value: shape.value,
            hosts: shape.hosts.iter().map(|host| host.parse()).collect::<Result<_, _>>()?,
            places: shape.places,
            inject: shape.inject,
            counts_tokens: shape.counts_tokens,
        })
    }
}
