//! The names of limits in requests to this server.

use silica_domain::Limit;

/// Returns the field of a native request that sets a limit. Messages name it.
pub(crate) fn field(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory => "limits.memory_bytes",
        Limit::Cpu => "limits.cpu_seconds",
        Limit::Wall => "timeout_seconds",
        Limit::Cpus => "limits.cpus",
        Limit::Processes => "limits.processes",
        Limit::OpenFiles => "limits.open_files",
        Limit::Disk => "limits.disk_bytes",
        Limit::FileSize => "limits.file_bytes",
        Limit::Output => "limits.output_bytes",
        Limit::Results => "limits.results",
        Limit::ResultBytes => "limits.result_bytes",
    }
}
