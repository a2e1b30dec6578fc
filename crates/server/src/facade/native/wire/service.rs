//! Whether the server works.

use schemars::JsonSchema;
use serde::Serialize;

/// The server is alive
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Alive {
    /// Always `ok`
    #[schemars(extend("enum" = ["ok"]))]
    pub(crate) status: &'static str,
}

/// The server can create sandboxes
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Ready {
    /// Always `ok`
    #[schemars(extend("enum" = ["ok"]))]
    pub(crate) status: &'static str,
    /// Sandboxes kept ready
    pub(crate) pool: usize,
}
