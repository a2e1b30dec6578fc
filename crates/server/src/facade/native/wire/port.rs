//! Ports of a sandbox.

use schemars::JsonSchema;
use serde::Serialize;

/// The ports that a sandbox exposes
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("examples" = [{
    "ports": [{"port": 8000, "open": true, "url": "/v1/sandboxes/sbx0/ports/8000/"}],
    "every": false, "public": false,
}]))]
pub(crate) struct PortList {
    /// Those that were listed when the sandbox was created
    pub(crate) ports: Vec<ExposedPort>,
    /// Whether every port that can be exposed is; then none is listed
    pub(crate) every: bool,
    /// Whether they can be reached without a key
    pub(crate) public: bool,
}

/// A port that can be reached
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct ExposedPort {
    /// Its number
    pub(crate) port: u16,
    /// Whether a server listens there
    pub(crate) open: bool,
    /// Its address: a host of its own where the server has such, else a path of this API
    pub(crate) url: String,
}
