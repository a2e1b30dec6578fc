//! The settings of networks and ports of sandboxes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use silica_domain::{Cidr, DenyRule, DnsName, NetworkLimits, NetworkMode, NetworkRule};

/// The networks that sandboxes may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// The most that a request may ask for.
    pub(crate) mode_max: NetworkMode,
    /// What requests may ask for if `mode_max` is `list`; anything if empty.
    pub(crate) allow: Vec<NetworkRule>,
    /// What is forbidden for all sandboxes.
    pub(crate) deny: Vec<DenyRule>,
    /// Ranges that are reachable although they are not public.
    pub(crate) private_allowed: Vec<Cidr>,
    /// Addresses of names, which are not looked up then.
    pub(crate) hosts: BTreeMap<DnsName, IpAddr>,
    /// A PEM file of certificates that count as roots beside the public ones.
    pub(crate) extra_roots: Option<PathBuf>,
    /// The proxy through which every connection goes.
    pub(crate) upstream_proxy: Option<String>,
    pub(crate) dns_timeout: Duration,
    /// How long a connection is held for a person's answer.
    pub(crate) ask: Duration,
    /// The network of E2B's sandboxes whose request does not speak of one.
    pub(crate) e2b_default: NetworkMode,
    /// The limits of one sandbox.
    pub(crate) limits: NetworkLimits,
    /// Connections of all sandboxes of one key, and of all sandboxes.
    pub(crate) key_connections: u32,
    pub(crate) server_connections: u32,
    /// Files with secrets that all keys may use, by name, each with the hosts it may go to.
    pub(crate) secrets: BTreeMap<String, SecretSource>,
}

/// A file with a secret, and the hosts it may go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretSource {
    pub(crate) file: PathBuf,
    pub(crate) hosts: Vec<String>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            mode_max: NetworkMode::None,
            allow: Vec::new(),
            deny: Vec::new(),
            private_allowed: Vec::new(),
            hosts: BTreeMap::new(),
            extra_roots: None,
            upstream_proxy: None,
            dns_timeout: Duration::from_secs(5),
            ask: Duration::from_secs(30),
            e2b_default: NetworkMode::None,
            limits: NetworkLimits::default(),
            key_connections: NetworkLimits::for_key().connections,
            server_connections: NetworkLimits::for_server().connections,
            secrets: BTreeMap::new(),
        }
    }
}
