//! Secrets that a guest uses by a placeholder and never sees.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use silica_domain::{DnsName, HostPattern};

/// The shortest value: a shorter one would be found by chance when answers are searched for it.
const VALUE_BYTES_MIN: usize = 8;

/// The longest value: every answer is searched for it.
const VALUE_BYTES_MAX: usize = 4 * 1024;

/// What is wrong with a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The value's length is not allowed.
    #[error("a secret's value must have {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} bytes")]
    Length,
    /// The value has control characters.
    #[error("a secret's value must not have control characters or bytes beyond ASCII")]
    Control,
    /// A place is not known.
    #[error("a secret's place must be header, basic, query, path or body")]
    Place,
    /// A host is not allowed.
    #[error("a secret's host must be a host name, a pattern or either with `:port`")]
    Host,
    /// An injected header is not allowed.
    #[error("an injected header needs a header name, and a value with `{{}}` for the secret")]
    Injection,
}

/// A secret's value. It prints as `****`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretValue(String);

impl SecretValue {
    /// Checks a value.
    pub fn new(value: String) -> Result<Self, SecretError> {
        if !(VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value.len()) {
            return Err(SecretError::Length);
        }
        if !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return Err(SecretError::Control);
        }
        Ok(Self(value))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("****")
    }
}

/// A part of a request in which a placeholder is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretPlace {
    /// The value of any header.
    Header,
    /// The user or password of `Authorization: Basic`.
    Basic,
    /// The query.
    Query,
    /// The path.
    Path,
    /// The body, if it is JSON, a form or text.
    Body,
}

impl FromStr for SecretPlace {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        match text {
            "header" => Ok(Self::Header),
            "basic" => Ok(Self::Basic),
            "query" => Ok(Self::Query),
            "path" => Ok(Self::Path),
            "body" => Ok(Self::Body),
            _ => Err(SecretError::Place),
        }
    }
}

/// A host and the one port of it to which a secret may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretHost {
    pattern: HostPattern,
    port: u16,
}

impl SecretHost {
    /// Tells whether a secret may go there.
    pub fn matches(&self, name: &DnsName, port: u16) -> bool {
        self.port == port && self.pattern.matches(name)
    }
}

impl FromStr for SecretHost {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| SecretError::Host)?),
            None => (text, 443),
        };
        let pattern = host.parse().map_err(|_| SecretError::Host)?;
        if port == 0 { Err(SecretError::Host) } else { Ok(Self { pattern, port }) }
    }
}

impl fmt::Display for SecretHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.pattern, self.port)
    }
}

/// A header that every request of a rule gets, in place of what the guest sent under its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderInjection {
    header: String,
    value: String,
}

impl HeaderInjection {
    /// Checks a header's name and its value, in which `{}` stands for the secret.
    pub fn new(header: &str, value: &str) -> Result<Self, SecretError> {
        let name = header.parse::<hyper::header::HeaderName>();
        let printable = value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        let framing = ["host", "content-length", "transfer-encoding", "connection"];
        match name {
            Ok(name) if printable && value.matches("{}").count() == 1 => {
                if framing.contains(&name.as_str()) {
                    return Err(SecretError::Injection);
                }
                Ok(Self { header: name.to_string(), value: value.to_owned() })
            }
            _ => Err(SecretError::Injection),
        }
    }

    pub(crate) fn header(&self) -> &str {
        &self.header
    }

    pub(crate) fn with(&self, value: &SecretValue) -> String {
        self.value.replace("{}", value.reveal())
    }
}

/// A secret of one sandbox, with where it may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundSecret {
    /// The name by which rules call it.
    pub name: String,
    /// What the guest has in its place.
    pub placeholder: String,
    /// The value.
    pub value: SecretValue,
    /// Where it may go.
    pub hosts: Vec<SecretHost>,
    /// Where in a request it is put in.
    pub places: Vec<SecretPlace>,
    /// A header that is set without a placeholder.
    pub inject: Option<HeaderInjection>,
    /// Whether answers are searched for the number of tokens that a model used.
    pub counts_tokens: bool,
}
