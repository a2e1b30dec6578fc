//! Address ranges, and the addresses that no rule can open.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::error::{NetworkError, excerpt};

/// A range of addresses by its first address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    first: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// Returns the first address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// Returns the length of the prefix in bits.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Tells whether an address is in the range. IPv4 and IPv6 are different ranges.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                within(first.to_bits().into(), address.to_bits().into(), self.prefix, 32)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                within(first.to_bits(), address.to_bits(), self.prefix, 128)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

fn within(first: u128, address: u128, prefix: u8, width: u8) -> bool {
    // A shift by the whole width of the type would overflow.
    let rest = u32::from(width - prefix);
    first.checked_shr(rest).unwrap_or(0) == address.checked_shr(rest).unwrap_or(0)
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.first, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let refuse = |why| NetworkError::Range { range: excerpt(text), why };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| refuse("it has no address"))?;
        let width = if first.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => width,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| refuse("its prefix is not a number of bits"))?
            }
            Some(_) => return Err(refuse("its prefix is not a number of bits")),
        };
        if prefix > width {
            return Err(refuse("its prefix is longer than the address"));
        }
        let range = Self { first, prefix };
        if range.network() != first {
            return Err(refuse("bits behind the prefix are set"));
        }
        Ok(range)
    }
}

impl Cidr {
    fn network(&self) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(first.to_bits() & mask))
            }
            IpAddr::V6(first) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(first.to_bits() & mask))
            }
        }
    }
}

/// The addresses of the machine that runs the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnAddresses {
    /// The addresses of its interfaces.
    pub interfaces: Vec<IpAddr>,
    /// Where the server itself listens. No setting opens these.
    pub listeners: Vec<SocketAddr>,
}

impl OwnAddresses {
    fn listens_at(&self, address: IpAddr, port: u16) -> bool {
        let is_here = |listener: &SocketAddr| {
            let at = unmapped(listener.ip());
            let every = at.is_unspecified();
            let local = address.is_loopback() || self.interfaces.contains(&address);
            listener.port() == port && (at == address || every && local)
        };
        self.listeners.iter().any(is_here)
    }
}

/// The IPv4 ranges that are not public (RFC 6890 and its successors), and those of clouds' own
/// services.
const FORBIDDEN_V4: [(Ipv4Addr, u8); 16] = [
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // A cloud's agent for its virtual machines, reachable from every one of them.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The IPv6 ranges that are not public. Everything outside 2000::/3 is forbidden as well.
const FORBIDDEN_V6: [(Ipv6Addr, u8); 11] = [
    (Ipv6Addr::UNSPECIFIED, 96),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8),
];

/// The range of addresses that are in use on the internet.
const PUBLIC_V6: Cidr =
    Cidr { first: IpAddr::V6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0)), prefix: 3 };

/// Returns why no connection to an address may be made, or `None` if it may.
///
/// An IPv6 address that carries an IPv4 address is judged by the one inside. `allowed` are the
/// ranges that the operator opened; they do not open a port on which the server listens.
pub fn denied_range(
    address: IpAddr,
    port: u16,
    allowed: &[Cidr],
    own: &OwnAddresses,
) -> Option<String> {
    let address = inner(address);
    if own.listens_at(address, port) {
        return Some(format!("{address}:{port} is the server itself"));
    }
    if allowed.iter().any(|range| range.contains(address)) {
        return None;
    }
    if own.interfaces.contains(&address) {
        return Some(format!("{address} is an address of this machine"));
    }
    let range = match address {
        IpAddr::V4(_) => FORBIDDEN_V4
            .iter()
            .map(|&(first, prefix)| Cidr { first: first.into(), prefix })
            .find(|range| range.contains(address)),
        IpAddr::V6(_) => FORBIDDEN_V6
            .iter()
            .map(|&(first, prefix)| Cidr { first: first.into(), prefix })
            .find(|range| range.contains(address)),
    };
    match range {
        Some(range) => Some(format!("{address} is in {range}, which is not public")),
        None if address.is_ipv6() && !PUBLIC_V6.contains(address) => {
            Some(format!("{address} is not a public address"))
        }
        None => None,
    }
}

/// Returns the IPv4 address inside an IPv6 address, if it has one; otherwise the address.
fn inner(address: IpAddr) -> IpAddr {
    let IpAddr::V6(outer) = address else {
        return address;
    };
    let [first, second, third, fourth, _, _, seventh, eighth] = outer.segments();
    let join = |high: u16, low: u16| {
        IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
    };
    let bits = outer.to_bits();
    if bits >> 32 == 0xffff || bits >> 32 == 0x0064_ff9b_u128 << 64 {
        // ::ffff:0:0/96 and 64:ff9b::/96.
        return join(seventh, eighth);
    }
    if bits >> 32 == 0 && bits > 1 {
        // ::/96, the abandoned "compatible" form, but for :: and ::1.
        return join(seventh, eighth);
    }
    if first == 0x2002 {
        // 6to4.
        return join(second, third);
    }
    if first == 0x2001 && second == 0 {
        // Teredo: the client's address is inverted at the end, the server's is in the middle.
        let client = join(!seventh, !eighth);
        let server = join(third, fourth);
        let public = |address| denied_range(address, 0, &[], &OwnAddresses::default()).is_none();
        return if public(client) { server } else { client };
    }
    address
}

fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(outer) => outer.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}
