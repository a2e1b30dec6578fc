//! Sockets inside a sandbox, which this crate asks for and others make.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// Where the DNS server listens inside a sandbox.
pub(crate) const DNS_ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 53);

/// Where the proxy listens inside a sandbox.
pub(crate) const PROXY_ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128);

/// How many unbound sockets a sandbox has ahead.
pub(crate) const SPARES: usize = 8;

/// The queue of connections that wait to be accepted.
pub(crate) const BACKLOG: u32 = 128;

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SocketKind {
    /// TCP over IPv4.
    Stream,
    /// UDP over IPv4.
    Datagram,
}

/// A socket to be made inside a sandbox's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketSpec {
    /// What it is for.
    pub kind: SocketKind,
    /// The address to bind it to; none for a socket that is not bound.
    pub address: Option<SocketAddrV4>,
    /// The length of its queue. A bound stream socket listens.
    pub backlog: u32,
}

impl SocketSpec {
    pub(crate) fn listener(address: SocketAddrV4) -> Self {
        Self { kind: SocketKind::Stream, address: Some(address), backlog: BACKLOG }
    }

    pub(crate) fn spare() -> Self {
        Self { kind: SocketKind::Stream, address: None, backlog: BACKLOG }
    }
}

/// The sockets of every sandbox with a network, in the order in which they are sent.
pub(crate) fn first_sockets() -> Vec<SocketSpec> {
    let everywhere = |port| SocketSpec::listener(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
    let mut specs = vec![
        SocketSpec { kind: SocketKind::Datagram, address: Some(DNS_ADDRESS), backlog: 0 },
        SocketSpec::listener(DNS_ADDRESS),
        SocketSpec::listener(PROXY_ADDRESS),
        everywhere(80),
        everywhere(443),
    ];
    specs.extend([SocketSpec::spare(); SPARES]);
    specs
}

/// Why no sockets could be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make sockets inside the sandbox: {0}")]
pub struct SocketsUnavailable(pub String);

/// Makes sockets inside one sandbox.
pub trait SandboxSockets: Send + Sync {
    /// Makes all sockets of a list, in its order, or none. Listeners have `SO_REUSEADDR`, since
    /// connections of an earlier process may still be in TIME_WAIT, and no socket has
    /// `SO_REUSEPORT`, by which a guest could join it. They need not be non-blocking.
    fn open(
        &self,
        specs: Vec<SocketSpec>,
    ) -> BoxFuture<'_, Result<Vec<OwnedFd>, SocketsUnavailable>>;
}
