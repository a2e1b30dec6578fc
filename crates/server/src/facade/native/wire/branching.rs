//! Copies of sandboxes, states that are kept, and what they lack.

use schemars::JsonSchema;
use serde::Serialize;
use silica_domain::LeftBehind;
use silica_sessions::SandboxSnapshot;

use super::Moment;
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

/// A state of a sandbox that is kept
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Snapshot {
    /// Its id
    #[schemars(regex(pattern = "^snp"))]
    id: String,
    /// The name that its owner gave it
    name: Option<String>,
    /// The sandbox that it was made of
    sandbox: String,
    /// How many bytes its memory and its files take
    bytes: u64,
    /// When it was made
    created_at: Moment,
    /// When it ends
    expires_at: Moment,
    /// What the sandbox had and it has not
    left_behind: Vec<LeftBehindItem>,
}

impl From<&SandboxSnapshot> for Snapshot {
    fn from(snapshot: &SandboxSnapshot) -> Self {
        Self {
            id: snapshot.id().to_string(),
            name: snapshot.name().map(str::to_owned),
            sandbox: snapshot.sandbox().to_string(),
            bytes: snapshot.bytes(),
            created_at: Moment(snapshot.created_at()),
            expires_at: Moment(snapshot.expires_at()),
            left_behind: snapshot.left_behind().iter().map(LeftBehindItem::from).collect(),
        }
    }
}

/// The snapshots of a key
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SnapshotList {
    /// The oldest first
    pub(crate) snapshots: Vec<Snapshot>,
}

/// A state that the sandbox can be set back to
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Mark {
    /// Its id, unique in the sandbox
    #[schemars(regex(pattern = "^m"))]
    pub(crate) id: String,
    /// How many cells the kernel had begun
    pub(crate) cells: u64,
}
