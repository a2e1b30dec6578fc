//! What one sandbox, one key or the whole server may use of the network.

use std::time::Duration;

use super::error::NetworkError;

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

/// The limits of one sandbox's network, or the sums over the sandboxes of a key or of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Connections at once.
    pub connections: u32,
    /// New connections in a second.
    pub connections_per_second: u32,
    /// New connections at once after a quiet time.
    pub connections_burst: u32,
    /// Look-ups in a second.
    pub lookups_per_second: u32,
    /// Different names that get an address.
    pub names: u32,
    /// Bytes to the far side, in the sandbox's life.
    pub bytes_up: u64,
    /// Bytes from the far side, in the sandbox's life.
    pub bytes_down: u64,
    /// Bytes in a second, both ways together.
    pub bytes_per_second: u64,
    /// How long a connection may be silent.
    pub idle: Duration,
    /// How long a connection may live.
    pub life: Duration,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            connections: 64,
            connections_per_second: 20,
            connections_burst: 100,
            lookups_per_second: 100,
            names: 1024,
            bytes_up: 256 * MIB,
            bytes_down: GIB,
            bytes_per_second: 50 * MIB,
            idle: Duration::from_mins(5),
            life: Duration::from_hours(1),
        }
    }
}

impl NetworkLimits {
    /// Returns the default sums over the sandboxes of one key.
    pub fn for_key() -> Self {
        Self {
            connections: 1024,
            connections_per_second: 200,
            connections_burst: 1000,
            lookups_per_second: 1000,
            names: 65_536,
            bytes_up: 1024 * GIB,
            bytes_down: 1024 * GIB,
            bytes_per_second: 500 * MIB,
            ..Self::default()
        }
    }

    /// Returns the default sums over all sandboxes of the server.
    pub fn for_server() -> Self {
        Self {
            connections: 8192,
            connections_per_second: 2000,
            connections_burst: 8192,
            lookups_per_second: 20_000,
            names: 1_048_576,
            bytes_up: 1024 * 1024 * GIB,
            bytes_down: 1024 * 1024 * GIB,
            bytes_per_second: 2 * GIB,
            ..Self::default()
        }
    }

    /// Checks that every limit is at least one and none is above the operator's.
    pub fn within(self, most: &Self) -> Result<Self, NetworkError> {
        let pairs = [
            ("connections", self.connections.into(), most.connections.into()),
            (
                "connections_per_second",
                self.connections_per_second.into(),
                most.connections_per_second.into(),
            ),
            ("connections_burst", self.connections_burst.into(), most.connections_burst.into()),
            ("lookups_per_second", self.lookups_per_second.into(), most.lookups_per_second.into()),
            ("names", self.names.into(), most.names.into()),
            ("bytes_up", self.bytes_up, most.bytes_up),
            ("bytes_down", self.bytes_down, most.bytes_down),
            ("bytes_per_second", self.bytes_per_second, most.bytes_per_second),
            ("idle_seconds", self.idle.as_secs(), most.idle.as_secs()),
            ("life_seconds", self.life.as_secs(), most.life.as_secs()),
        ];
        for (name, value, most) in pairs {
            if value < 1 || value > most {
                return Err(NetworkError::Limit { name, least: 1, most });
            }
        }
        Ok(self)
    }
}
