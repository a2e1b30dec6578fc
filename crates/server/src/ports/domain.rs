//! Host names of ports: `{port}-{sandbox}.{domain}`, each an origin of its own.

#[cfg(test)]
mod tests;

use std::sync::Arc;

/// The domain below which each port of each sandbox has a host name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortDomain(Arc<str>);

impl PortDomain {
    /// Takes a domain, which is a host name without a port.
    pub(crate) fn new(domain: &str) -> Self {
        Self(domain.to_ascii_lowercase().into())
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Returns the host name of a port.
    pub(crate) fn host(&self, port: u16, sandbox: &str) -> String {
        format!("{port}-{sandbox}.{}", self.0)
    }

    /// Returns whether a host name lies below the domain, be it that of a port or not.
    pub(crate) fn is_above(&self, host: &str) -> bool {
        self.label(host).is_some()
    }

    /// Returns the port and the sandbox that a host name is for.
    pub(crate) fn parse(&self, host: &str) -> Option<(u16, String)> {
        let label = self.label(host)?.to_ascii_lowercase();
        let (port, sandbox) = label.split_once('-')?;
        let digits = port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
        let plain = |byte: u8| byte.is_ascii_alphanumeric();
        if !digits || sandbox.is_empty() || !sandbox.bytes().all(plain) {
            return None;
        }
        Some((port.parse().ok()?, sandbox.to_owned()))
    }

    /// Returns what precedes the domain in a host name.
    fn label<'a>(&self, host: &'a str) -> Option<&'a str> {
        let at = host.len().checked_sub(self.0.len())?;
        let (before, domain) = (host.get(..at)?, host.get(at..)?);
        let before = before.strip_suffix('.')?;
        domain.eq_ignore_ascii_case(&self.0).then_some(before)
    }
}
