//! Limits in requests to this server and in its responses: fields, units, and the names that messages
//! give them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silica_domain::{Limit, LimitValues, Limits};

use super::native::seconds;
use super::native::wire::promised;
use crate::http::problem::{Code, Problem};

/// The limits of a sandbox; those left out are the server's defaults
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Limits", extend("examples" = [{
    "memory_bytes": 536_870_912, "disk_bytes": 104_857_600, "cpus": 1.0, "cpu_seconds": 30,
    "wall_seconds": 30, "processes": 128, "open_files": 1024, "file_bytes": 104_857_600,
    "output_bytes": 65536, "results": 64, "result_bytes": 16_777_216,
}]))]
pub(crate) struct LimitsBody {
    /// Memory of all processes and files together
    memory_bytes: Option<u64>,
    /// All writable files together; less than the memory
    disk_bytes: Option<u64>,
    /// Processors, for example 0.5 or 2
    cpus: Option<f64>,
    /// Processor time of one cell
    cpu_seconds: Option<f64>,
    /// Wall-clock time of one cell
    wall_seconds: Option<f64>,
    /// Processes and threads
    processes: Option<u32>,
    /// Open files of one process
    open_files: Option<u32>,
    /// The largest single file
    file_bytes: Option<u64>,
    /// Bytes kept of stdout and of stderr, each
    output_bytes: Option<u64>,
    /// Results of one cell
    results: Option<u32>,
    /// Bytes of all results of one cell
    result_bytes: Option<u64>,
}

impl LimitsBody {
    /// Returns the wall-clock time of one cell, if the request names one.
    pub(crate) fn wall(&self) -> Result<Option<Duration>, Problem> {
        self.wall_seconds.map(seconds).transpose()
    }

    /// Returns the values of the request, and `default` for those left out.
    pub(crate) fn over(&self, default: &LimitValues) -> Result<LimitValues, Problem> {
        let memory_bytes = self.memory_bytes.unwrap_or(default.memory_bytes);
        // Files are kept in memory: with less of it the default for files shrinks too.
        let disk_bytes = self.disk_bytes.unwrap_or(default.disk_bytes.min(memory_bytes / 2));
        let cpu_millis = match self.cpus {
            None => default.cpu_millis,
            Some(cpus) if cpus.is_finite() && (0.0..=1e6).contains(&cpus) => {
                (cpus * 1000.0).round() as u32
            }
            Some(_) => {
                return Err(Problem::new(
                    Code::BadLimit,
                    "limits.cpus must be a number from 0 to 1000000",
                ));
            }
        };
        let time = |asked: Option<f64>, default| asked.map_or(Ok(default), seconds);
        Ok(LimitValues {
            memory_bytes,
            disk_bytes,
            cpu_millis,
            cpu: time(self.cpu_seconds, default.cpu)?,
            wall: time(self.wall_seconds, default.wall)?,
            processes: self.processes.unwrap_or(default.processes),
            open_files: self.open_files.unwrap_or(default.open_files),
            file_bytes: self.file_bytes.unwrap_or(default.file_bytes.max(disk_bytes)),
            output_bytes: self.output_bytes.unwrap_or(default.output_bytes),
            results: self.results.unwrap_or(default.results),
            result_bytes: self.result_bytes.unwrap_or(default.result_bytes),
        })
    }
}

/// The limits of a sandbox
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(transform = promised(&[]))]
pub(crate) struct SandboxLimits {
    /// Memory of all processes and files together
    memory_bytes: u64,
    /// All writable files together
    disk_bytes: u64,
    /// Processors
    cpus: f64,
    /// Processor time of one cell
    cpu_seconds: f64,
    /// Wall-clock time of one cell
    wall_seconds: f64,
    /// Processes and threads
    processes: u32,
    /// Open files of one process
    open_files: u32,
    /// The largest single file
    file_bytes: u64,
    /// Bytes kept of stdout and of stderr, each
    output_bytes: u64,
    /// Results of one cell
    results: u32,
    /// Bytes of all results of one cell
    result_bytes: u64,
}

impl From<&Limits> for SandboxLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            disk_bytes: limits.disk_bytes,
            cpus: f64::from(limits.cpu_millis) / 1000.0,
            cpu_seconds: limits.cpu.as_secs_f64(),
            wall_seconds: limits.wall.as_secs_f64(),
            processes: limits.processes,
            open_files: limits.open_files,
            file_bytes: limits.file_bytes,
            output_bytes: limits.output_bytes,
            results: limits.results,
            result_bytes: limits.result_bytes,
        }
    }
}

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
