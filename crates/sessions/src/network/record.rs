//! What connections leave behind: records in the audit log, and what a cell shows of them.

use silica_egress::{ConnectionRecord, ConnectionState, DenialRecord, NetworkUsage};
use silica_store::audit::Note;
use silica_store::{SandboxId, Tenant};

/// The most refusals that a cell lists.
pub(super) const CELL_DENIALS_MAX: usize = 20;

/// The most requests of one connection that its record lists.
const REQUESTS_LISTED_MAX: usize = 10;

/// What a cell did with the network of its sandbox. Cells of several kernels that run at a time all
/// show what happened meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellNetwork {
    /// Connections that were allowed.
    pub connections: u64,
    /// Bytes to the far side.
    pub bytes_up: u64,
    /// Bytes from the far side.
    pub bytes_down: u64,
    /// The first refusals.
    pub denied: Vec<DenialRecord>,
    /// Whether a limit of the network was hit.
    pub limit_hit: bool,
}

impl CellNetwork {
    /// Returns what happened between two readings.
    pub(super) fn between(
        before: NetworkUsage,
        after: NetworkUsage,
        denied: Vec<DenialRecord>,
    ) -> Self {
        Self {
            connections: after.connections.saturating_sub(before.connections),
            bytes_up: after.bytes_up.saturating_sub(before.bytes_up),
            bytes_down: after.bytes_down.saturating_sub(before.bytes_down),
            denied,
            limit_hit: after.limit_hit && !before.limit_hit,
        }
    }
}

/// Returns the note of a connection that has ended.
pub(super) fn connection_note(
    tenant: &Tenant,
    sandbox: &SandboxId,
    cells: &str,
    record: &ConnectionRecord,
) -> Note {
    let event = match record.state {
        ConnectionState::Refused => "connection_refused",
        ConnectionState::Open | ConnectionState::Closed => "connection",
    };
    let mut note = Note::new(event)
        .with("host", &format!("{}:{}", record.host, record.port))
        .with("kind", record.kind.name())
        .with("bytes_up", &record.bytes_up.to_string())
        .with("bytes_down", &record.bytes_down.to_string())
        .with("ms", &record.duration_ms.to_string())
        .with("requests", &record.request_count.to_string());
    let optional = [
        ("rule", record.rule.clone()),
        ("origin", record.origin.clone()),
        ("code", record.code.clone()),
        ("address", record.address.map(|address| address.to_string())),
        ("cells", (!cells.is_empty()).then(|| cells.to_owned())),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            note = note.with(name, &value);
        }
    }
    for (index, request) in record.requests.iter().take(REQUESTS_LISTED_MAX).enumerate() {
        let secrets = match request.secrets.as_slice() {
            [] => String::new(),
            names => format!(" with {}", names.join(", ")),
        };
        let line = format!("{} {} {}{secrets}", request.method, request.path, request.status);
        note = note.with(&format!("request_{}", index + 1), &line);
    }
    owned(note, tenant, sandbox)
}

/// Returns the note of refusals.
pub(super) fn denial_note(
    tenant: &Tenant,
    sandbox: &SandboxId,
    cells: &str,
    denial: &DenialRecord,
) -> Note {
    let mut note = Note::new("connection_denied")
        .with("host", &format!("{}:{}", denial.host, denial.port))
        .with("kind", denial.kind.name())
        .with("code", &denial.code)
        .with("message", &denial.message)
        .with("count", &denial.count.to_string());
    if !cells.is_empty() {
        note = note.with("cells", cells);
    }
    owned(note, tenant, sandbox)
}

fn owned(mut note: Note, tenant: &Tenant, sandbox: &SandboxId) -> Note {
    note.tenant = Some(tenant.clone());
    note.sandbox = Some(sandbox.clone());
    note
}
