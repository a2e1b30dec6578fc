//! Which ports of a sandbox clients may reach, and who may.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::error::SessionError;

/// The least port that can be exposed. Lower ones belong to services of the host.
pub const EXPOSED_PORT_MIN: u16 = 1024;

/// The most ports that one sandbox lists.
pub const EXPOSED_PORTS_MAX: usize = 16;

/// Ports that are never reached from outside: the host's own proxy in a sandbox, and the two services
/// that E2B's clients address by a port.
const RESERVED: [u16; 3] = [3128, 49983, 49999];

/// The ports of a sandbox that clients may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exposure {
    ports: ExposedPorts,
    audience: Audience,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ExposedPorts {
    Listed(BTreeSet<u16>),
    /// All that can be exposed.
    Every,
}

impl Default for ExposedPorts {
    fn default() -> Self {
        Self::Listed(BTreeSet::new())
    }
}

/// Who may reach the exposed ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// Clients that show the key of the sandbox's owner, a link or a token.
    #[default]
    Owner,
    /// Every client that knows the address.
    Public,
}

impl Exposure {
    /// Exposes these ports to the sandbox's owner.
    pub fn listed(ports: impl IntoIterator<Item = u16>) -> Result<Self, SessionError> {
        let ports: BTreeSet<u16> = ports.into_iter().collect();
        if ports.len() > EXPOSED_PORTS_MAX {
            let words = format!("expose must have at most {EXPOSED_PORTS_MAX} ports");
            return Err(SessionError::Bad(words));
        }
        if let Some(port) = ports.iter().find(|port| !can_be_exposed(**port)) {
            return Err(SessionError::Bad(format!(
                "port {port} cannot be exposed: ports from {EXPOSED_PORT_MIN} on can, but for \
                 {RESERVED:?}"
            )));
        }
        Ok(Self { ports: ExposedPorts::Listed(ports), audience: Audience::Owner })
    }

    /// Exposes every port that can be exposed.
    pub fn every(audience: Audience) -> Self {
        Self { ports: ExposedPorts::Every, audience }
    }

    /// Returns whether clients may reach a port.
    pub fn contains(&self, port: u16) -> bool {
        match &self.ports {
            ExposedPorts::Listed(ports) => ports.contains(&port),
            ExposedPorts::Every => can_be_exposed(port),
        }
    }

    /// Returns who may reach the ports.
    pub fn audience(&self) -> Audience {
        self.audience
    }

    /// Returns the ports that were listed; `None` if every one is exposed.
    pub fn ports(&self) -> Option<&BTreeSet<u16>> {
        match &self.ports {
            ExposedPorts::Listed(ports) => Some(ports),
            ExposedPorts::Every => None,
        }
    }
}

fn can_be_exposed(port: u16) -> bool {
    port >= EXPOSED_PORT_MIN && !RESERVED.contains(&port)
}
