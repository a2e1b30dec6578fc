//! The network of a sandbox as seen from outside: sockets that belong to its network namespace and
//! are used by the host, and what its programs must know to use them.
//!
//! A sandbox reaches loopback and nothing else. What the host opens here lets it reach the host's
//! own listeners, and lets the host reach the sandbox's.
//!
//! Tests: `tests/it/engine/sockets.rs`.

#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddrV4};

use silica_templates::TRUST_BUNDLE;

/// The most sockets that are opened at once.
pub const GUEST_SOCKETS_MAX: usize = 32;

/// The most ranges of addresses that are made local at once.
pub const GUEST_PREFIXES_MAX: usize = 64;

/// The addresses that are local in a sandbox with sockets of the host, beside loopback. Each stands
/// for a name that the host resolves. They are reserved for tests of network devices (RFC 2544).
pub const SYNTHETIC_ADDRESSES: GuestPrefix =
    GuestPrefix { address: Ipv4Addr::new(198, 18, 0, 0), length: 15 };

/// The port of the proxy that [`network_environment`] names.
pub const PROXY_PORT: u16 = 3128;

/// A socket to open in a sandbox's network namespace. It does not block, and keeps the namespace
/// for as long as it is open: close it when the sandbox ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestSocket {
    /// A stream socket without an address, to be connected or bound later. Only ports from 1024 on
    /// can be bound later.
    Stream,
    /// A stream socket that listens, on any port.
    Listener {
        address: SocketAddrV4,
        /// How many connections wait to be accepted.
        backlog: u16,
    },
    /// A datagram socket, bound to any port.
    Datagram { address: SocketAddrV4 },
}

/// A range of IPv4 addresses whose traffic stays in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GuestPrefix {
    address: Ipv4Addr,
    length: u8,
}

impl GuestPrefix {
    /// Returns the range of all addresses that share the first `length` bits of `address`; `None`
    /// if there are no so many bits, or if `address` is not the first of the range.
    pub fn new(address: Ipv4Addr, length: u8) -> Option<Self> {
        let prefix = Self { address, length };
        let is_first = length <= 32 && address.to_bits() & !prefix.mask() == 0;
        is_first.then_some(prefix)
    }

    /// Returns its first address.
    pub fn address(self) -> Ipv4Addr {
        self.address
    }

    /// Returns how many bits its addresses share.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Returns whether an address is in it.
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & self.mask() == self.address.to_bits()
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0)
    }
}

/// The variables that name a proxy for all addresses but the sandbox's own. Programs differ in
/// which case they read.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// The variables that name a file of trusted certificates.
const TRUST: [&str; 8] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "DENO_CERT",
];

/// Returns the variables of every program in a sandbox whose host listens as a proxy on
/// 127.0.0.1:[`PROXY_PORT`].
pub fn network_environment() -> impl Iterator<Item = (String, String)> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let own = "localhost,127.0.0.1,::1";
    let proxies = PROXIES.into_iter().map(move |name| (name.to_owned(), proxy.clone()));
    let direct = ["NO_PROXY", "no_proxy"].map(|name| (name.to_owned(), own.to_owned()));
    let trust = TRUST.map(|name| (name.to_owned(), TRUST_BUNDLE.to_owned()));
    // Node reads the variables above only if it is asked to.
    let node = ("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned());
    proxies.chain(direct).chain(trust).chain([node])
}
