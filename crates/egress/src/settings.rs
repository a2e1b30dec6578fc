//! The operator's settings of the network.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use silica_domain::{Cidr, DnsName, NetworkLimits};

/// A proxy of the operator through which every connection goes.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamProxy {
    /// Its host name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The value of `Proxy-Authorization`, if it wants one.
    pub authorization: Option<String>,
}

impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authorization = self.authorization.as_ref().map(|_| "****");
        formatter
            .debug_struct("UpstreamProxy")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("authorization", &authorization)
            .finish()
    }
}

/// What holds for the networks of all sandboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressSettings {
    /// Ranges that are reachable although they are not public.
    pub private_allowed: Vec<Cidr>,
    /// Where the server listens; never reachable.
    pub listeners: Vec<SocketAddr>,
    /// Certificates that count as roots beside the public ones, as PEM.
    pub extra_roots_pem: String,
    /// Addresses of names, which are not looked up then.
    pub hosts: Vec<(DnsName, IpAddr)>,
    /// The proxy through which every connection goes.
    pub upstream_proxy: Option<UpstreamProxy>,
    /// How long a look-up may take.
    pub dns_timeout: Duration,
    /// How long a connection is held for a person's answer.
    pub ask_timeout: Duration,
    /// The sums over the sandboxes of one key.
    pub key_limits: NetworkLimits,
    /// The sums over all sandboxes.
    pub server_limits: NetworkLimits,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            private_allowed: Vec::new(),
            listeners: Vec::new(),
            extra_roots_pem: String::new(),
            hosts: Vec::new(),
            upstream_proxy: None,
            dns_timeout: Duration::from_secs(5),
            ask_timeout: Duration::from_secs(30),
            key_limits: NetworkLimits::for_key(),
            server_limits: NetworkLimits::for_server(),
        }
    }
}
