//! Copies of sandboxes, and what they lack.

use schemars::JsonSchema;
use serde::Serialize;
use silica_domain::LeftBehind;

use super::sandbox::Sandbox;

/// Something that a copy of a sandbox does not have
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LeftBehind", extend("examples" = [{"kind": "socket", "name": "socket:[1] (descriptor 5)"}]))]
pub(crate) struct LeftBehindItem {
    /// What it is
    #[schemars(extend("enum" = [
        "thread", "process", "shared_memory", "file", "pipe", "socket", "device", "event",
        "timer", "task",
    ]))]
    kind: &'static str,
    /// What it is called in the sandbox
    name: String,
}

impl From<&LeftBehind> for LeftBehindItem {
    fn from(thing: &LeftBehind) -> Self {
        Self { kind: thing.kind.name(), name: thing.name.clone() }
    }
}

/// The copies of a sandbox
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ForkedSandboxes {
    /// The new sandboxes
    pub(crate) sandboxes: Vec<Sandbox>,
    /// What the original has and they have not
    pub(crate) left_behind: Vec<LeftBehindItem>,
}
