//! Whether the server works.

use schemars::JsonSchema;
use serde::Serialize;

/// What answers at this address
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Service {
    /// Always `silica`
    #[schemars(extend("enum" = ["silica"]))]
    pub(crate) name: &'static str,
    /// The version of the server
    pub(crate) version: &'static str,
    /// The path of the API as a page
    pub(crate) docs: &'static str,
    /// The path of the API as an OpenAPI document
    pub(crate) openapi: &'static str,
    /// The path that says whether the server is ready
    pub(crate) ready: &'static str,
}

impl Service {
    /// Returns this server's.
    pub(crate) fn this() -> Self {
        Self {
            name: "silica",
            version: env!("CARGO_PKG_VERSION"),
            docs: "/docs",
            openapi: "/openapi.json",
            ready: "/readyz",
        }
    }
}

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
