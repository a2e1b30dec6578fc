//! Reading what a group has used. The zone master and the engine both hold its files, so that the
//! engine need not send the master a request before and after every cell.
//!
//! The files are opened when the group is made, ahead of time, and read again and again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::{pread, write};
use serde::{Deserialize, Serialize};

use super::{Controller, Version};

/// How much of a file is read: a number, or a few lines of them.
const READ_BYTES: usize = 1024;

/// What a group has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupUsage {
    /// Processor time; `None` if it is not measured.
    pub cpu_us: Option<u64>,
    /// The most memory held at once; `None` if it is not measured.
    pub memory_peak_bytes: Option<u64>,
    /// Memory held now; `None` if it is not measured.
    pub memory_bytes: Option<u64>,
    /// How many processes the kernel killed for lack of memory.
    pub oom_kills: u64,
    /// How often a fork failed because of the limit of processes.
    pub fork_refusals: u64,
}

/// What a file measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gauge {
    /// Processor time of v1, in nanoseconds.
    Cpuacct,
    /// Processor time of v2.
    CpuStat,
    /// Memory held now.
    Memory,
    /// The most memory held.
    MemoryPeak,
    /// Kills for lack of memory.
    OomKills,
    /// Forks that failed because of the limit of processes.
    ForkRefusals,
}

impl Gauge {
    /// Returns the gauges of a hierarchy and their files.
    pub(super) fn of(
        version: Version,
        controllers: &[Controller],
    ) -> impl Iterator<Item = (Self, &'static str)> {
        let has = |controller| controllers.contains(&controller);
        let memory = has(Controller::Memory);
        let pids = has(Controller::Pids);
        let all = match version {
            Version::V1 => [
                (pids, Self::ForkRefusals, "pids.events"),
                (memory, Self::MemoryPeak, "memory.max_usage_in_bytes"),
                (memory, Self::Memory, "memory.usage_in_bytes"),
                (memory, Self::OomKills, "memory.oom_control"),
                (has(Controller::Cpuacct), Self::Cpuacct, "cpuacct.usage"),
            ],
            Version::V2 => [
                (pids, Self::ForkRefusals, "pids.events"),
                // Since Linux 5.19.
                (memory, Self::MemoryPeak, "memory.peak"),
                (memory, Self::Memory, "memory.current"),
                (memory, Self::OomKills, "memory.events"),
                // Exists without any controller.
                (true, Self::CpuStat, "cpu.stat"),
            ],
        };
        all.into_iter().filter_map(|(is_there, gauge, file)| is_there.then_some((gauge, file)))
    }

    fn read(self, text: &str, usage: &mut GroupUsage) {
        let number = || text.trim().parse::<u64>().ok();
        match self {
            Self::Cpuacct => usage.cpu_us = number().map(|nanoseconds| nanoseconds / 1000),
            Self::CpuStat => usage.cpu_us = field(text, "usage_usec").or(usage.cpu_us),
            Self::Memory => usage.memory_bytes = number(),
            Self::MemoryPeak => usage.memory_peak_bytes = number(),
            Self::OomKills => usage.oom_kills = field(text, "oom_kill").unwrap_or(0),
            Self::ForkRefusals => usage.fork_refusals = field(text, "max").unwrap_or(0),
        }
    }
}

/// The gauges of one group. They do not keep the group: once it is removed, they read nothing.
#[derive(Debug, Default)]
pub struct Meter {
    gauges: Vec<(Gauge, OwnedFd)>,
    /// What was counted for the sandboxes that had the group before.
    before: GroupUsage,
    /// The last reading of a closed meter; `None` while it is open.
    last: Mutex<Option<GroupUsage>>,
}

impl Meter {
    pub(super) fn new(gauges: Vec<(Gauge, OwnedFd)>) -> Self {
        Self { gauges, ..Self::default() }
    }

    /// Makes a meter of the parts of another process's; `None` if there is not one file for each
    /// gauge.
    pub fn received(gauges: &[Gauge], before: GroupUsage, files: Vec<OwnedFd>) -> Option<Self> {
        let fits = gauges.len() == files.len();
        let gauges = || gauges.iter().copied().zip(files).collect();
        fits.then(|| Self { before, ..Self::new(gauges()) })
    }

    /// Resets it for another sandbox; false if it would show usage of the one before.
    pub(crate) fn start_over(&mut self) -> bool {
        let mut peaks = self.gauges.iter().filter(|(gauge, _)| *gauge == Gauge::MemoryPeak);
        // Any write resets the peak. The other counters cannot be reset, and are subtracted.
        if !peaks.all(|(_, file)| write(file, b"0").is_ok()) {
            return false;
        }
        let (counted, is_all) = self.count();
        self.before = counted;
        is_all
    }

    /// Reads it for the last time. From then on `read` returns that reading, even if another
    /// sandbox has the group.
    pub fn close(&self) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.get_or_insert_with(|| self.since_before());
    }

    /// Returns the gauges and their files, in the same order, to be sent to another process.
    pub(crate) fn parts(&self) -> (Vec<Gauge>, Vec<BorrowedFd<'_>>) {
        self.gauges.iter().map(|(gauge, file)| (*gauge, file.as_fd())).unzip()
    }

    /// Returns what is to be subtracted, to be sent along with the parts.
    pub(crate) fn before(&self) -> GroupUsage {
        self.before
    }

    /// Reads what the sandbox has used so far. Takes a few microseconds.
    pub fn read(&self) -> GroupUsage {
        // The lock is held while the files are read, so that none is read after `close`.
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.unwrap_or_else(|| self.since_before())
    }

    /// Reads the processor time that the sandbox has used so far; `None` if it is not measured.
    pub fn read_cpu(&self) -> Option<u64> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = *last {
            return last.cpu_us;
        }
        let is_cpu =
            |(gauge, _): &&(Gauge, OwnedFd)| matches!(gauge, Gauge::Cpuacct | Gauge::CpuStat);
        let mut usage = GroupUsage::default();
        for gauge in self.gauges.iter().filter(is_cpu) {
            read_gauge(gauge, &mut usage);
        }
        usage.cpu_us.map(|us| us.saturating_sub(self.before.cpu_us.unwrap_or(0)))
    }

    fn since_before(&self) -> GroupUsage {
        let (counted, _) = self.count();
        let before = self.before;
        GroupUsage {
            cpu_us: counted.cpu_us.map(|us| us.saturating_sub(before.cpu_us.unwrap_or(0))),
            oom_kills: counted.oom_kills.saturating_sub(before.oom_kills),
            fork_refusals: counted.fork_refusals.saturating_sub(before.fork_refusals),
            ..counted
        }
    }

    /// Returns what the kernel has counted since the group was made, or for the peak since it was
    /// reset, and whether every gauge could be read. Those of a removed group cannot.
    fn count(&self) -> (GroupUsage, bool) {
        let mut usage = GroupUsage::default();
        let mut is_all = true;
        for gauge in &self.gauges {
            is_all &= read_gauge(gauge, &mut usage);
        }
        usage.memory_peak_bytes = usage.memory_peak_bytes.or(usage.memory_bytes);
        (usage, is_all)
    }
}

/// Adds what a gauge shows; returns whether it could be read.
fn read_gauge((gauge, file): &(Gauge, OwnedFd), usage: &mut GroupUsage) -> bool {
    let mut buffer = [0; READ_BYTES];
    let length = pread(file, &mut buffer, 0).unwrap_or(0);
    if let Ok(text) = std::str::from_utf8(&buffer[..length]) {
        gauge.read(text, usage);
    }
    length > 0
}

/// Returns the number after `key` in a file of `key value` lines.
pub(super) fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
