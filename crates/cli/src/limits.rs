//! The flags that set limits, of `silica run` and `silica repl`.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use silica_domain::{Limit, LimitValues};

use crate::units;

/// Limits on the command line.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Memory for all processes and files together [default: 512M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    memory: Option<u64>,
    /// Processors, for example 0.5 or 2 [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = units::cpus)]
    cpus: Option<u32>,
    /// Wall-clock time of the code, or of each cell [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    timeout: Option<Duration>,
    /// Processor time [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    cpu_seconds: Option<Duration>,
    /// Writable files, all together [default: 100M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    disk: Option<u64>,
    /// The largest single file [default: 100M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    file_size: Option<u64>,
    /// Processes and threads [default: 128]
    #[arg(long, value_name = "NUMBER")]
    processes: Option<u32>,
    /// Open files of one process [default: 1024]
    #[arg(long, value_name = "NUMBER")]
    open_files: Option<u32>,
    /// Bytes kept of stdout and of stderr, half at each end [default: 64K]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    output: Option<u64>,
    /// Results shown [default: 64]
    #[arg(long, value_name = "NUMBER")]
    results: Option<u32>,
    /// Bytes of all results [default: 16M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    result_bytes: Option<u64>,
}

impl LimitArgs {
    /// Returns the values, with defaults for those that are not given.
    pub(crate) fn values(&self) -> LimitValues {
        let default = LimitValues::default();
        let memory_bytes = self.memory.unwrap_or(default.memory_bytes);
        // Files are kept in memory: less of it means less room for them, unless --disk says how much.
        let disk_bytes = self.disk.unwrap_or(default.disk_bytes.min(memory_bytes / 2));
        LimitValues {
            memory_bytes,
            cpu: self.cpu_seconds.unwrap_or(default.cpu),
            wall: self.timeout.unwrap_or(default.wall),
            cpu_millis: self.cpus.unwrap_or(default.cpu_millis),
            processes: self.processes.unwrap_or(default.processes),
            open_files: self.open_files.unwrap_or(default.open_files),
            disk_bytes,
            file_bytes: self.file_size.unwrap_or(default.file_bytes),
            output_bytes: self.output.unwrap_or(default.output_bytes),
            results: self.results.unwrap_or(default.results),
            result_bytes: self.result_bytes.unwrap_or(default.result_bytes),
        }
    }

    /// Returns those that are given, as a request to a server has them.
    pub(crate) fn to_json(&self) -> Value {
        let all = json!({
            "memory_bytes": self.memory,
            "disk_bytes": self.disk,
            "cpus": self.cpus.map(|millis| f64::from(millis) / 1000.0),
            "cpu_seconds": self.cpu_seconds.map(|time| time.as_secs_f64()),
            "wall_seconds": self.timeout.map(|time| time.as_secs_f64()),
            "processes": self.processes,
            "open_files": self.open_files,
            "file_bytes": self.file_size,
            "output_bytes": self.output,
            "results": self.results,
            "result_bytes": self.result_bytes,
        });
        match all {
            Value::Object(fields) => {
                fields.into_iter().filter(|(_, value)| !value.is_null()).collect()
            }
            other => other,
        }
    }
}

/// Returns the flag that sets a limit, for messages.
pub(crate) fn flag(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory => "--memory",
        Limit::Cpu => "--cpu-seconds",
        Limit::Wall => "--timeout",
        Limit::Cpus => "--cpus",
        Limit::Processes => "--processes",
        Limit::OpenFiles => "--open-files",
        Limit::Disk => "--disk",
        Limit::FileSize => "--file-size",
        Limit::Output => "--output",
        Limit::Results => "--results",
        Limit::ResultBytes => "--result-bytes",
    }
}
