//! What one sandbox may use. A `Limits` exists only if every value lies within the operator's maximum.

#[cfg(test)]
mod tests;

use std::time::Duration;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// The name of one limit, the same in messages, flags and JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Memory of all processes and writable files.
    Memory,
    /// Processor seconds of one cell.
    Cpu,
    /// Seconds on the clock of one cell.
    Wall,
    /// Share of processors.
    Cpus,
    /// Processes and threads.
    Processes,
    /// Open files of one process.
    OpenFiles,
    /// All writable files together.
    Disk,
    /// One file.
    FileSize,
    /// Bytes kept of each of stdout and stderr.
    Output,
    /// Number of results of one cell.
    Results,
    /// Bytes of all results of one cell.
    ResultBytes,
}

impl Limit {
    /// Its name in messages and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Wall => "wall",
            Self::Cpus => "cpus",
            Self::Processes => "processes",
            Self::OpenFiles => "open_files",
            Self::Disk => "disk",
            Self::FileSize => "file_size",
            Self::Output => "output",
            Self::Results => "results",
            Self::ResultBytes => "result_bytes",
        }
    }

    /// The flag of `silica run` that sets it.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Memory => "--memory",
            Self::Cpu => "--cpu-seconds",
            Self::Wall => "--timeout",
            Self::Cpus => "--cpus",
            Self::Processes => "--processes",
            Self::OpenFiles => "--open-files",
            Self::Disk => "--disk",
            Self::FileSize => "--file-size",
            Self::Output => "--output",
            Self::Results => "--results",
            Self::ResultBytes => "--result-bytes",
        }
    }

    /// The field of a request to the server that sets it.
    pub fn field(self) -> &'static str {
        match self {
            Self::Memory => "limits.memory_bytes",
            Self::Cpu => "limits.cpu_seconds",
            Self::Wall => "timeout_seconds",
            Self::Cpus => "limits.cpus",
            Self::Processes => "limits.processes",
            Self::OpenFiles => "limits.open_files",
            Self::Disk => "limits.disk_bytes",
            Self::FileSize => "limits.file_bytes",
            Self::Output => "limits.output_bytes",
            Self::Results => "limits.results",
            Self::ResultBytes => "limits.result_bytes",
        }
    }
}

/// What one sandbox may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of all processes and writable files.
    pub memory_bytes: u64,
    /// Processor time of one cell.
    pub cpu: Duration,
    /// Time on the clock of one cell.
    pub wall: Duration,
    /// Thousandths of one processor.
    pub cpu_millis: u32,
    /// Processes and threads.
    pub processes: u32,
    /// Open files of one process.
    pub open_files: u32,
    /// All writable files together.
    pub disk_bytes: u64,
    /// One file.
    pub file_bytes: u64,
    /// Bytes kept of each of stdout and stderr.
    pub output_bytes: u64,
    /// Number of results of one cell.
    pub results: u32,
    /// Bytes of all results of one cell.
    pub result_bytes: u64,
}

impl Default for Limits {
    /// The defaults of the documentation. They are the tight end, so falling back to them is safe.
    fn default() -> Self {
        Self {
            memory_bytes: 512 * MIB,
            cpu: Duration::from_secs(30),
            wall: Duration::from_mins(1),
            cpu_millis: 1000,
            processes: 128,
            open_files: 1024,
            disk_bytes: 100 * MIB,
            file_bytes: 100 * MIB,
            output_bytes: 64 * KIB,
            results: 64,
            result_bytes: 16 * MIB,
        }
    }
}

/// The most an operator lets anybody ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsMax(pub Limits);

impl Default for LimitsMax {
    fn default() -> Self {
        Self(Limits {
            memory_bytes: 16 * GIB,
            cpu: Duration::from_hours(1),
            wall: Duration::from_hours(1),
            cpu_millis: 64_000,
            processes: 4096,
            open_files: 65_536,
            disk_bytes: 8 * GIB,
            file_bytes: 8 * GIB,
            output_bytes: 64 * MIB,
            results: 1024,
            result_bytes: 64 * MIB,
        })
    }
}

/// A limit that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Zero or too little to work with.
    #[error("the {} limit is {asked}, but at least {least} is needed", .limit.name())]
    TooSmall {
        /// Which.
        limit: Limit,
        /// What was asked for.
        asked: String,
        /// The least that works.
        least: String,
    },
    /// More than the operator allows.
    #[error("the {} limit is {asked}, but at most {most} is allowed here", .limit.name())]
    TooLarge {
        /// Which.
        limit: Limit,
        /// What was asked for.
        asked: String,
        /// The operator's maximum.
        most: String,
    },
    /// Files live in memory, so they cannot be larger than it.
    #[error(
        "the disk limit is {disk}, but files are kept in memory and the memory limit is {memory}"
    )]
    DiskOverMemory {
        /// What was asked for.
        disk: String,
        /// The memory limit.
        memory: String,
    },
}

impl Limits {
    /// The least of each that works.
    pub const LEAST: Self = Self {
        // An interpreter with its libraries.
        memory_bytes: 32 * MIB,
        cpu: Duration::from_millis(1),
        wall: Duration::from_millis(1),
        // The kernel's least share: one thousandth of a 50 ms period would round to nothing.
        cpu_millis: 20,
        // An interpreter and one helper.
        processes: 2,
        // The three streams, the control socket and some modules.
        open_files: 16,
        // What holds a file system at all.
        disk_bytes: 64 * KIB,
        file_bytes: 1,
        output_bytes: 1,
        results: 1,
        result_bytes: 1,
    };

    /// Checks every value against what works and what the operator allows.
    pub fn checked(self, max: &LimitsMax) -> Result<Self, LimitError> {
        let (least, max) = (&Self::LEAST, &max.0);
        within(Limit::Memory, self.memory_bytes, least.memory_bytes, max.memory_bytes, bytes)?;
        within_time(Limit::Cpu, self.cpu, least.cpu, max.cpu)?;
        within_time(Limit::Wall, self.wall, least.wall, max.wall)?;
        let cpus = (self.cpu_millis, least.cpu_millis, max.cpu_millis);
        within_count(Limit::Cpus, cpus, thousandths)?;
        let processes = (self.processes, least.processes, max.processes);
        within_count(Limit::Processes, processes, plain)?;
        let open_files = (self.open_files, least.open_files, max.open_files);
        within_count(Limit::OpenFiles, open_files, plain)?;
        within(Limit::Disk, self.disk_bytes, least.disk_bytes, max.disk_bytes, bytes)?;
        within(Limit::FileSize, self.file_bytes, least.file_bytes, max.file_bytes, bytes)?;
        within(Limit::Output, self.output_bytes, least.output_bytes, max.output_bytes, bytes)?;
        within_count(Limit::Results, (self.results, least.results, max.results), plain)?;
        within(Limit::ResultBytes, self.result_bytes, least.result_bytes, max.result_bytes, bytes)?;
        if self.disk_bytes >= self.memory_bytes {
            let (disk, memory) = (bytes(self.disk_bytes), bytes(self.memory_bytes));
            return Err(LimitError::DiskOverMemory { disk, memory });
        }
        Ok(self)
    }

    /// The value of one limit, for people.
    pub fn describe(&self, limit: Limit) -> String {
        match limit {
            Limit::Memory => bytes(self.memory_bytes),
            Limit::Cpu => millis(self.cpu.as_millis() as u64),
            Limit::Wall => millis(self.wall.as_millis() as u64),
            Limit::Cpus => thousandths(self.cpu_millis.into()),
            Limit::Processes => plain(self.processes.into()),
            Limit::OpenFiles => plain(self.open_files.into()),
            Limit::Disk => bytes(self.disk_bytes),
            Limit::FileSize => bytes(self.file_bytes),
            Limit::Output => bytes(self.output_bytes),
            Limit::Results => plain(self.results.into()),
            Limit::ResultBytes => bytes(self.result_bytes),
        }
    }
}

fn within(
    limit: Limit,
    asked: u64,
    least: u64,
    most: u64,
    show: fn(u64) -> String,
) -> Result<(), LimitError> {
    if asked < least {
        let (asked, least) = (show(asked), show(least));
        return Err(LimitError::TooSmall { limit, asked, least });
    }
    if asked > most {
        let (asked, most) = (show(asked), show(most));
        return Err(LimitError::TooLarge { limit, asked, most });
    }
    Ok(())
}

fn within_time(
    limit: Limit,
    asked: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), LimitError> {
    let [asked, least, most] = [asked, least, most].map(|time| time.as_millis() as u64);
    within(limit, asked, least, most, millis)
}

/// Takes what was asked for, the least and the most.
fn within_count(
    limit: Limit,
    (asked, least, most): (u32, u32, u32),
    show: fn(u64) -> String,
) -> Result<(), LimitError> {
    within(limit, asked.into(), least.into(), most.into(), show)
}

fn plain(number: u64) -> String {
    number.to_string()
}

fn thousandths(number: u64) -> String {
    format!("{}", number as f64 / 1000.0)
}

fn millis(number: u64) -> String {
    format!("{} s", number as f64 / 1000.0)
}

/// A number of bytes in the largest unit that divides it.
pub(crate) fn bytes(number: u64) -> String {
    for (unit, name) in [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")] {
        if number >= unit && number.is_multiple_of(unit) {
            return format!("{} {name}", number / unit);
        }
    }
    format!("{number} bytes")
}
