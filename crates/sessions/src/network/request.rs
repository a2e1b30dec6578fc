//! What a client asks for, and the terms that come of it.

use std::collections::BTreeMap;

use silica_domain::{
    EffectivePolicy, HostPattern, NetworkApproval, NetworkHost, NetworkLimits, NetworkMode,
    NetworkPolicy, NetworkRule, NetworkVerdict, PolicyDenial, PolicyLayer, PolicyOrigin, RuleDraft,
    RuleTarget,
};
use silica_egress::BoundSecret;
use silica_engine::network_environment;
use silica_store::Tenant;
use silica_store::secrets::{SecretTerms, SecretText};

use super::secret::Terms;
use crate::error::SessionError;
use crate::sessions::Sessions;

/// A request for a network.
#[derive(Clone, Debug)]
pub struct NetworkRequest {
    /// What the sandbox may reach.
    pub policy: NetworkPolicy,
    /// Rules of the operator, by name.
    pub presets: Vec<String>,
    /// Secrets, by name. Each adds a rule for each of its hosts.
    pub secrets: Vec<String>,
    /// Secrets that come with the request. Rules use them by name.
    pub inline: Vec<InlineSecret>,
    /// The limits; `None` is the operator's default.
    pub limits: Option<NetworkLimits>,
}

impl NetworkRequest {
    /// Returns a request for what a policy allows, with the operator's limits.
    pub fn new(policy: NetworkPolicy) -> Self {
        Self { policy, presets: Vec::new(), secrets: Vec::new(), inline: Vec::new(), limits: None }
    }
}

/// A secret that comes with a request and is kept for its sandbox alone.
#[derive(Clone, Debug)]
pub struct InlineSecret {
    pub name: String,
    pub value: SecretText,
    /// Where it may go.
    pub terms: SecretTerms,
}

/// The most secrets that come with a request.
const INLINE_MAX: usize = 32;

/// The network that a sandbox has.
#[derive(Clone, Debug)]
pub(crate) struct NetworkTerms {
    /// The layer of the sandbox: its own rules, those of presets and of secrets.
    pub(crate) policy: NetworkPolicy,
    pub(crate) ceiling: NetworkPolicy,
    pub(crate) limits: NetworkLimits,
    pub(crate) secrets: Vec<BoundSecret>,
    /// Variables of every process in the sandbox.
    pub(crate) environment: BTreeMap<String, String>,
}

impl NetworkTerms {
    /// Returns whether the sandbox can reach anything.
    pub(crate) fn has_egress(&self) -> bool {
        self.policy.mode() != NetworkMode::None
    }

    /// Returns all policies over the sandbox.
    pub(crate) fn effective(
        &self,
        floor: &NetworkPolicy,
        approvals: Vec<NetworkApproval>,
    ) -> EffectivePolicy {
        let layer = |origin, policy: &NetworkPolicy| PolicyLayer { origin, policy: policy.clone() };
        let layers = vec![
            layer(PolicyOrigin::Floor, floor),
            layer(PolicyOrigin::Ceiling, &self.ceiling),
            layer(PolicyOrigin::Sandbox, &self.policy),
        ];
        EffectivePolicy::new(layers, approvals)
    }
}

impl Sessions {
    /// Checks a request for a network against what the operator offers to the key.
    pub(crate) async fn network_terms(
        &self,
        tenant: &Tenant,
        request: &NetworkRequest,
        placeholders: &BTreeMap<String, String>,
    ) -> Result<NetworkTerms, SessionError> {
        let options = &self.services.networks.options;
        let limits = request.limits.clone().unwrap_or_else(|| options.limits.clone());
        let limits =
            limits.within(&options.limits).map_err(|error| SessionError::network(&error))?;
        if request.inline.len() > INLINE_MAX {
            return Err(SessionError::BadNetwork(format!(
                "a request must have at most {INLINE_MAX} headers of its own"
            )));
        }
        let mut parts = Parts::new(request);
        for name in &request.presets {
            let unknown = || SessionError::NotOffered(format!("the preset {name}"));
            let preset = options.presets.get(name).ok_or_else(unknown)?;
            parts.rules.extend(preset.rules.iter().cloned());
            parts.secrets.extend(preset.secrets.iter().cloned());
            parts.environment.extend(preset.environment.clone());
        }
        self.bind_secrets(tenant, &mut parts, placeholders).await?;
        let mode = request.policy.mode();
        let policy = NetworkPolicy::new(
            mode,
            parts.rules,
            request.policy.deny().to_vec(),
            request.policy.ask(),
        );
        let policy = policy.map_err(|error| SessionError::network(&error))?;
        if mode != NetworkMode::None {
            let own: BTreeMap<String, String> = network_environment().collect();
            let given = std::mem::replace(&mut parts.environment, own);
            parts.environment.extend(given);
        }
        let terms = NetworkTerms {
            policy,
            ceiling: self.ceiling(tenant)?,
            limits,
            secrets: parts.bound,
            environment: parts.environment,
        };
        self.check_offered(&terms)?;
        Ok(terms)
    }

    /// Binds the secrets of a request, and adds a rule for each host of those that it names itself.
    async fn bind_secrets(
        &self,
        tenant: &Tenant,
        parts: &mut Parts,
        placeholders: &BTreeMap<String, String>,
    ) -> Result<(), SessionError> {
        let in_rules: Vec<String> =
            parts.rules.iter().flat_map(|rule| rule.secrets().to_vec()).collect();
        let names: std::collections::BTreeSet<String> =
            parts.named.iter().chain(&parts.secrets).cloned().chain(in_rules).collect();
        for name in names {
            let inline = parts.inline.iter().find(|secret| secret.name == name);
            let (terms, value) = match inline {
                Some(secret) => {
                    secret.terms.check()?;
                    (secret.terms.clone(), secret.value.clone())
                }
                None => self.open_secret(tenant, &name).await?,
            };
            let placeholder = match placeholders.get(&name) {
                Some(placeholder) => placeholder.clone(),
                None => placeholder(&name, terms.prefix.as_deref())?,
            };
            if let Some(variable) = &terms.env {
                parts.environment.insert(variable.clone(), placeholder.clone());
            }
            if parts.named.contains(&name) {
                parts.rules.extend(secret_rules(&name, &terms)?);
            }
            parts.bound.push(terms.bind(&name, placeholder, &value)?);
        }
        Ok(())
    }

    /// Refuses what the operator does not offer to the key.
    fn check_offered(&self, terms: &NetworkTerms) -> Result<(), SessionError> {
        if !terms.has_egress() {
            return Ok(());
        }
        let networks = &self.services.networks;
        let mode = terms.policy.mode();
        let most = terms.ceiling.mode().min(networks.options.floor.mode());
        if networks.egress.is_none() || most < mode {
            return Err(SessionError::NotOffered(format!("a network of mode {}", mode.name())));
        }
        let effective = terms.effective(&networks.options.floor, Vec::new());
        for rule in terms.policy.allow() {
            if let Some(denial) = refused_by_operator(&effective, rule) {
                return Err(SessionError::NotOffered(format!("{rule}: {denial}")));
            }
        }
        Ok(())
    }
}

/// Returns why the operator's layers refuse a rule for a single host; a pattern is judged when it is
/// used.
fn refused_by_operator(effective: &EffectivePolicy, rule: &NetworkRule) -> Option<PolicyDenial> {
    let RuleTarget::Host(HostPattern::Exact(name)) = rule.target() else { return None };
    let host = NetworkHost::Name(name.clone());
    rule.ports().iter().find_map(|port| match effective.decide_connection(&host, *port) {
        NetworkVerdict::Denied(denial) if is_operators(&denial) => Some(denial),
        NetworkVerdict::Denied(_) | NetworkVerdict::Allowed(_) | NetworkVerdict::Ask => None,
    })
}

/// Returns whether a layer of the operator refuses.
fn is_operators(denial: &PolicyDenial) -> bool {
    match denial {
        PolicyDenial::HostNotAllowed(origin)
        | PolicyDenial::PortNotAllowed(origin)
        | PolicyDenial::ProtocolNotAllowed(origin)
        | PolicyDenial::MethodNotAllowed(origin)
        | PolicyDenial::PathNotAllowed(origin)
        | PolicyDenial::Forbidden { origin, .. } => *origin <= PolicyOrigin::Ceiling,
        PolicyDenial::NoNetwork | PolicyDenial::BadPath(_) => false,
    }
}

/// What a request adds up to.
struct Parts {
    rules: Vec<NetworkRule>,
    /// Secrets that the request names itself.
    named: Vec<String>,
    inline: Vec<InlineSecret>,
    /// Secrets that presets name.
    secrets: Vec<String>,
    environment: BTreeMap<String, String>,
    bound: Vec<BoundSecret>,
}

impl Parts {
    fn new(request: &NetworkRequest) -> Self {
        Self {
            rules: request.policy.allow().to_vec(),
            named: request.secrets.clone(),
            inline: request.inline.clone(),
            secrets: Vec::new(),
            environment: BTreeMap::new(),
            bound: Vec::new(),
        }
    }
}

/// Returns a rule for each host of a secret, by which it may be used.
fn secret_rules(name: &str, terms: &SecretTerms) -> Result<Vec<NetworkRule>, SessionError> {
    let rule = |host: &String| {
        let (host, port) = match host.split_once(':') {
            Some((host, port)) => (host, port.parse().unwrap_or_default()),
            None => (host.as_str(), 443),
        };
        let draft = RuleDraft {
            host: Some(host.to_owned()),
            ports: vec![port],
            protocol: Some("tls".to_owned()),
            secrets: vec![name.to_owned()],
            ..RuleDraft::default()
        };
        NetworkRule::parse(&draft).map_err(|error| SessionError::network(&error))
    };
    terms.hosts.iter().map(rule).collect()
}

/// Binds a secret that no store holds: returns it under a fresh placeholder, and the rules by which
/// it may be used.
pub fn bind_secret(
    name: &str,
    value: &SecretText,
    terms: &SecretTerms,
) -> Result<(BoundSecret, Vec<NetworkRule>), SessionError> {
    terms.check()?;
    let placeholder = placeholder(name, terms.prefix.as_deref())?;
    Ok((terms.bind(name, placeholder, value)?, secret_rules(name, terms)?))
}

/// Returns a fresh placeholder, which says nothing about the value.
fn placeholder(name: &str, prefix: Option<&str>) -> Result<String, SessionError> {
    let random = silica_store::random_hex()?;
    let plain: String =
        name.chars().map(|character| if character == '.' { '_' } else { character }).collect();
    Ok(format!("{}silica_secret_{plain}_{random}", prefix.unwrap_or_default()))
}
