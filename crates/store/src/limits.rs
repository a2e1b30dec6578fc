//! Limits as the store keeps them: in records of sandboxes, and in the audit log.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use silica_domain::Limits;

/// Returns limits in the form of sandbox records, which is that of the API.
pub fn limits_json(limits: &Limits) -> Value {
    json!({
        "memory_bytes": limits.memory_bytes,
        "disk_bytes": limits.disk_bytes,
        "cpus": f64::from(limits.cpu_millis) / 1000.0,
        "cpu_seconds": limits.cpu.as_secs_f64(),
        "wall_seconds": limits.wall.as_secs_f64(),
        "processes": limits.processes,
        "open_files": limits.open_files,
        "file_bytes": limits.file_bytes,
        "output_bytes": limits.output_bytes,
        "results": limits.results,
        "result_bytes": limits.result_bytes,
    })
}

/// Limits in a record of the audit log. Its form never changes: the chain covers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditedLimits {
    memory_bytes: u64,
    cpu_ms: u64,
    wall_ms: u64,
    cpu_millis: u32,
    processes: u32,
    open_files: u32,
    disk_bytes: u64,
    file_bytes: u64,
    output_bytes: u64,
    results: u32,
    result_bytes: u64,
}

impl From<&Limits> for AuditedLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            cpu_ms: limits.cpu.as_millis() as u64,
            wall_ms: limits.wall.as_millis() as u64,
            cpu_millis: limits.cpu_millis,
            processes: limits.processes,
            open_files: limits.open_files,
            disk_bytes: limits.disk_bytes,
            file_bytes: limits.file_bytes,
            output_bytes: limits.output_bytes,
            results: limits.results,
            result_bytes: limits.result_bytes,
        }
    }
}
