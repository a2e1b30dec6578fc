//! E2B's network settings as a request for a network.
//!
//! E2B's sandboxes reach everything unless a setting says otherwise. Here the operator says what a
//! sandbox has whose request says nothing (`network.e2b_default`), and rules of a request narrow it.
//! Where E2B lets an allowed host win over a forbidden range, the forbidden range wins here.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use silica_domain::{DenyRule, NetworkError, NetworkMode, NetworkPolicy, NetworkRule, RuleDraft};
use silica_sessions::{Audience, Exposure, InlineSecret, NetworkRequest};
use silica_store::secrets::{SecretTerms, SecretText};

use super::error::E2bError;
use crate::app::App;
use crate::facade::native::network::bad_network;

/// The range that stands for every address.
const EVERYTHING: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// The ports of hosts that E2B's rules name.
const PORTS: [u16; 2] = [80, 443];

/// The network of a sandbox, as E2B's clients send it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NetworkSettings {
    allow_out: Vec<String>,
    deny_out: Vec<String>,
    rules: BTreeMap<String, Vec<HostRule>>,
    https_ports: Vec<u16>,
    /// Whether servers in the sandbox can be reached without a token. Left out, they cannot be reached:
    /// what trusts its own machine would be open to others.
    allow_public_traffic: Option<bool>,
    #[serde(rename = "allow_internet_access")]
    allow_internet_access: Option<bool>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// What is done with requests to a host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct HostRule {
    transform: Transform,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Transform {
    headers: BTreeMap<String, String>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl NetworkSettings {
    /// Reads the settings of a request. `access` is the field beside them.
    pub(super) fn parse(
        settings: &Map<String, Value>,
        access: Option<bool>,
    ) -> Result<Self, E2bError> {
        let read = serde_json::from_value(Value::Object(settings.clone()));
        let mut read: Self = read.map_err(|error| E2bError::bad(format!("network: {error}")))?;
        read.allow_internet_access = read.allow_internet_access.or(access);
        let rules = read.rules.values().flatten();
        let unknown = rules.flat_map(|rule| rule.more.iter().chain(&rule.transform.more));
        let unknown = read.more.iter().chain(unknown);
        // Among them: hosts in requests are not rewritten, and names are looked up by this server.
        let mut asked = unknown.filter(|(_, value)| super::sandbox::asks_for_something(value));
        if let Some((name, _)) = asked.next() {
            return Err(E2bError::bad(format!("network.{name} is not supported by this server")));
        }
        Ok(read)
    }

    /// Returns the ports that clients may reach.
    pub(super) fn exposure(&self) -> Exposure {
        match self.allow_public_traffic {
            None => Exposure::default(),
            Some(true) => Exposure::every(Audience::Public),
            Some(false) => Exposure::every(Audience::Owner),
        }
    }

    /// Returns the network that they ask for; `None` for none.
    pub(super) fn request(&self, app: &App) -> Result<Option<NetworkRequest>, E2bError> {
        let is_everything = |range: &String| EVERYTHING.contains(&range.as_str());
        let denies_all =
            self.allow_internet_access == Some(false) || self.deny_out.iter().any(is_everything);
        let default = if denies_all { NetworkMode::None } else { app.options.e2b_network };
        let names_hosts = !self.allow_out.is_empty() || !self.rules.is_empty();
        let mode = if names_hosts { default.max(NetworkMode::List) } else { default };
        if mode == NetworkMode::None {
            return Ok(None);
        }
        let refused = |error: NetworkError| E2bError::Problem(bad_network(&error));
        let mut allow = Vec::new();
        for host in self.allow_out.iter().filter(|host| !is_everything(host)) {
            allow.extend(self.rules_for(host).map_err(refused)?);
        }
        let mut inline = Vec::new();
        for (host, rules) in &self.rules {
            allow.extend(self.host_rules(host, rules, &mut inline).map_err(refused)?);
        }
        let deny = self.deny_out.iter().filter(|range| !is_everything(range));
        let deny = deny.map(|range| range.parse::<DenyRule>()).collect::<Result<_, _>>();
        let policy = deny.and_then(|deny| NetworkPolicy::new(mode, allow, deny, false));
        let policy = policy.map_err(refused)?;
        Ok(Some(NetworkRequest { inline, ..NetworkRequest::new(policy) }))
    }

    /// Returns rules for a host or range: TLS on its ports, and plain HTTP on port 80.
    fn rules_for(&self, host: &str) -> Result<Vec<NetworkRule>, NetworkError> {
        let is_range = host.parse::<silica_domain::Cidr>().is_ok();
        let mut rules = Vec::new();
        for port in PORTS.iter().chain(&self.https_ports) {
            let named = Some(host.to_owned());
            let (host, cidr) = if is_range { (None, named) } else { (named, None) };
            let protocol = if *port == PORTS[0] { "http" } else { "tls" };
            rules.push(NetworkRule::parse(&RuleDraft {
                host,
                cidr,
                ports: vec![*port],
                protocol: Some(protocol.to_owned()),
                ..RuleDraft::default()
            })?);
        }
        Ok(rules)
    }

    /// Returns rules for a host whose requests get headers.
    fn host_rules(
        &self,
        host: &str,
        rules: &[HostRule],
        inline: &mut Vec<InlineSecret>,
    ) -> Result<Vec<NetworkRule>, NetworkError> {
        let headers = rules.iter().flat_map(|rule| &rule.transform.headers);
        let mut names = Vec::new();
        for (header, value) in headers {
            let name = format!("e2b-header-{}", inline.len() + 1);
            let terms = SecretTerms {
                hosts: vec![host.to_owned()],
                inject: Some((header.clone(), "{}".to_owned())),
                ..SecretTerms::default()
            };
            inline.push(InlineSecret {
                name: name.clone(),
                value: SecretText::new(value.clone()),
                terms,
            });
            names.push(name);
        }
        if names.is_empty() {
            return self.rules_for(host);
        }
        let draft = RuleDraft {
            host: Some(host.to_owned()),
            ports: vec![PORTS[1]],
            protocol: Some("tls".to_owned()),
            secrets: names,
            ..RuleDraft::default()
        };
        Ok(vec![NetworkRule::parse(&draft)?])
    }
}
