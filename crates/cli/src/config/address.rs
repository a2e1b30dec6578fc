//! Parsers of addresses, host names, origins and URLs in a configuration.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest host name, RFC 1035 section 2.3.4.
const HOST_BYTES_MAX: usize = 253;
/// The longest label of a host name.
const LABEL_BYTES_MAX: usize = 63;
/// The longest URL.
const URL_BYTES_MAX: usize = 1024;

/// The address on which the server listens: an IP address or host name, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    host: String,
    port: u16,
}

impl Listen {
    /// Parses `127.0.0.1:8585`, `[::1]:8585` or `localhost:8585`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host_of(host, Brackets::Needed)?;
        let port = port_of(port)?;
        Some(Self { host, port })
    }

    /// Returns the address or name, without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port; 0 for any free one.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Default for Listen {
    /// Returns a loopback address, which other machines cannot reach.
    fn default() -> Self {
        Self { host: "127.0.0.1".to_owned(), port: 8585 }
    }
}

impl fmt::Display for Listen {
    /// Writes the form that the standard library accepts as an address to bind.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host();
        let port = self.port();
        if host.contains(':') {
            write!(formatter, "[{host}]:{port}")
        } else {
            write!(formatter, "{host}:{port}")
        }
    }
}

/// Whether an IPv6 address must be in brackets, as before a port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brackets {
    Needed,
    Optional,
}

/// Parses a host name or address without a port, with or without brackets.
pub(super) fn host(text: &str) -> Option<String> {
    host_of(text, Brackets::Optional)
}

/// Parses a domain name, which is no address.
pub(super) fn domain(text: &str) -> Option<String> {
    let is_name = is_host_name(text) && text.parse::<Ipv4Addr>().is_err();
    is_name.then(|| text.to_ascii_lowercase())
}

/// Parses the origin of a web page: a scheme, a host and an optional port, without a path.
pub(super) fn origin(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (_, authority) = scheme_of(&text)?;
    is_authority(authority).then_some(text)
}

/// Parses a URL with an optional path; removes a trailing slash.
pub(super) fn url(text: &str) -> Option<String> {
    let (_, rest) = scheme_of(text)?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(&byte);
    let valid = text.len() <= URL_BYTES_MAX && is_authority(authority) && path.bytes().all(plain);
    valid.then(|| text.trim_end_matches('/').to_owned())
}

/// Returns whether a URL contains a user, perhaps with a password, and must not be printed.
pub(super) fn has_user(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

fn scheme_of(text: &str) -> Option<(&str, &str)> {
    text.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"))
}

/// Returns whether the text is a host with an optional port.
fn is_authority(text: &str) -> bool {
    let with_port = || {
        let (host, port) = text.rsplit_once(':')?;
        host_of(host, Brackets::Needed).zip(port_of(port))
    };
    host_of(text, Brackets::Needed).is_some() || with_port().is_some()
}

fn port_of(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn host_of(text: &str, brackets: Brackets) -> Option<String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if let Some(address) = bare.or((brackets == Brackets::Optional).then_some(text))
        && let Ok(address) = address.parse::<Ipv6Addr>()
    {
        return Some(address.to_string());
    }
    is_host_name(text).then(|| text.to_ascii_lowercase())
}

/// Returns whether the text is a host name or an IPv4 address.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(plain)
    };
    // A name whose last label is a number must be a valid IPv4 address.
    let last = text.rsplit('.').next().unwrap_or_default();
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit());
    let is_v4 = text.parse::<Ipv4Addr>().is_ok();
    text.len() <= HOST_BYTES_MAX && text.split('.').all(is_label) && (!numeric || is_v4)
}

#[cfg(test)]
mod tests;
