//! Host names and patterns of them.
//!
//! A [`DnsName`] has one form: lower case, A-labels, no dot at the end. Two names are the same host
//! only if their texts are equal.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::error::{NetworkError, excerpt};

/// The longest host name (RFC 1035, without the root's length byte and dot).
const NAME_BYTES_MAX: usize = 253;

/// The longest label (RFC 1035).
const LABEL_BYTES_MAX: usize = 63;

/// Suffixes under which strangers register names, so that a wildcard over one means no one owner.
/// It is not the whole public suffix list: a pattern needs two labels anyway, and these are the
/// two-label suffixes that a rule is most likely to name by mistake.
const SHARED_SUFFIXES: [&str; 28] = [
    "ac.uk",
    "appspot.com",
    "azurewebsites.net",
    "blogspot.com",
    "cloudfront.net",
    "co.in",
    "co.jp",
    "co.kr",
    "co.nz",
    "co.uk",
    "co.za",
    "com.au",
    "com.br",
    "com.cn",
    "com.mx",
    "com.tr",
    "fly.dev",
    "github.io",
    "gitlab.io",
    "gov.uk",
    "herokuapp.com",
    "netlify.app",
    "ngrok.io",
    "org.uk",
    "pages.dev",
    "vercel.app",
    "web.app",
    "workers.dev",
];

/// A host name: lower case, A-labels, no dot at the end, never an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DnsName(String);

impl DnsName {
    /// Returns the name's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns how many labels it has.
    pub fn labels(&self) -> usize {
        self.0.split('.').count()
    }
}

impl fmt::Display for DnsName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for DnsName {
    type Err = NetworkError;

    /// Upper case becomes lower case; all else must have the one form already.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let refuse = |why| Err(NetworkError::Name { name: excerpt(text), why });
        match problem(text) {
            Some(why) => refuse(why),
            None => Ok(Self(text.to_ascii_lowercase())),
        }
    }
}

/// Returns what is wrong with a host name.
fn problem(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("it is empty");
    }
    if text.len() > NAME_BYTES_MAX {
        return Some("it has more than 253 bytes");
    }
    if text.ends_with('.') {
        return Some("it ends in a dot");
    }
    if !text.is_ascii() {
        return Some("it has letters beyond ASCII, which are written as `xn--` labels");
    }
    if let Some(why) = text.split('.').find_map(label_problem) {
        return Some(why);
    }
    // The resolver of a host takes `127.1`, `0x7f.1` and `2130706433` for addresses.
    let last = text.rsplit('.').next().unwrap_or_default();
    if last.as_bytes()[0].is_ascii_digit() {
        return Some("its last label begins with a digit, as in an address");
    }
    None
}

fn label_problem(label: &str) -> Option<&'static str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if label.is_empty() {
        Some("a label is empty")
    } else if label.len() > LABEL_BYTES_MAX {
        Some("a label has more than 63 bytes")
    } else if !label.bytes().all(allowed) {
        Some("a label has a character that is not allowed")
    } else if label.starts_with('-') || label.ends_with('-') {
        Some("a label begins or ends with a hyphen")
    } else {
        None
    }
}

/// One host, or all hosts below a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This host and no other.
    Exact(DnsName),
    /// Hosts with one or more labels before this name, and not the name itself.
    Below(DnsName),
}

impl HostPattern {
    /// Tells whether a host is meant.
    pub fn matches(&self, name: &DnsName) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Below(parent) => {
                let before = name.as_str().strip_suffix(parent.as_str());
                before.is_some_and(|before| before.len() > 1 && before.ends_with('.'))
            }
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => write!(formatter, "{name}"),
            Self::Below(name) => write!(formatter, "*.{name}"),
        }
    }
}

impl FromStr for HostPattern {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let refuse = |why| NetworkError::Pattern { pattern: excerpt(text), why };
        let Some(parent) = text.strip_prefix("*.") else {
            if text.contains('*') {
                return Err(refuse("`*` is allowed only as the whole first label"));
            }
            return text.parse().map(Self::Exact);
        };
        if parent.contains('*') {
            return Err(refuse("`*` is allowed only as the whole first label"));
        }
        let parent: DnsName = parent.parse()?;
        if parent.labels() < 2 {
            return Err(refuse("a wildcard needs at least two labels behind it"));
        }
        if SHARED_SUFFIXES.contains(&parent.as_str()) {
            return Err(refuse("strangers register names below it"));
        }
        Ok(Self::Below(parent))
    }
}

/// What a guest connects to: a name, or an address of a range that a rule names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NetworkHost {
    /// A name that was resolved or named in a request.
    Name(DnsName),
    /// An address that the guest used itself.
    Address(IpAddr),
}

impl fmt::Display for NetworkHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(formatter, "{name}"),
            Self::Address(address) => write!(formatter, "{address}"),
        }
    }
}

impl FromStr for NetworkHost {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        match text.parse::<IpAddr>() {
            Ok(address) => Ok(Self::Address(address)),
            Err(_) => text.parse().map(Self::Name),
        }
    }
}
