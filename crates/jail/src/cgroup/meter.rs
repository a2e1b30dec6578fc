//! Reading what a group has used, by whoever holds its files: the master, and the engine, which then
//! need not ask the master once more before and after every cell.
//!
//! The files are opened when the group is made, while nobody waits, and read again and again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::pread;
use serde::{Deserialize, Serialize};

use super::{Controller, Version};

/// What is read of a file: numbers, or a few lines of them.
const READ_BYTES: usize = 1024;

/// What a group has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time, if measured.
    pub cpu_us: Option<u64>,
    /// The most memory held at once, if measured.
    pub memory_peak_bytes: Option<u64>,
    /// Memory held now, if measured.
    pub memory_bytes: Option<u64>,
    /// How many processes the kernel killed for lack of memory.
    pub oom_kills: u64,
    /// How often a fork was refused for the number of processes.
    pub fork_refusals: u64,
}

/// What one file tells.
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
    /// Forks that were refused.
    ForkRefusals,
}

impl Gauge {
    /// The gauges of a hierarchy and their files.
    pub(super) fn of(
        version: Version,
        controllers: &[Controller],
    ) -> impl Iterator<Item = (Self, &'static str)> {
        let has = |controller| controllers.contains(&controller);
        let (memory, pids) = (has(Controller::Memory), has(Controller::Pids));
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
                // There without any controller.
                (true, Self::CpuStat, "cpu.stat"),
            ],
        };
        all.into_iter().filter_map(|(is_there, gauge, file)| is_there.then_some((gauge, file)))
    }

    fn read(self, text: &str, usage: &mut Usage) {
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

/// The gauges of one group. Holding them does not keep the group: once that is removed, nothing is
/// measured any more.
#[derive(Debug, Default)]
pub struct Meter {
    gauges: Vec<(Gauge, OwnedFd)>,
}

impl Meter {
    pub(super) fn new(gauges: Vec<(Gauge, OwnedFd)>) -> Self {
        Self { gauges }
    }

    /// One that was handed over; `None` if its files do not fit its gauges.
    pub fn received(gauges: &[Gauge], files: Vec<OwnedFd>) -> Option<Self> {
        (gauges.len() == files.len())
            .then(|| Self::new(gauges.iter().copied().zip(files).collect()))
    }

    /// What it tells, and the files to hand over, in the same order.
    pub(crate) fn parts(&self) -> (Vec<Gauge>, Vec<BorrowedFd<'_>>) {
        self.gauges.iter().map(|(gauge, file)| (*gauge, file.as_fd())).unzip()
    }

    /// Reads what the group has used so far. Takes a few microseconds and waits for nobody.
    pub fn read(&self) -> Usage {
        let mut usage = Usage::default();
        let mut buffer = [0; READ_BYTES];
        for (gauge, file) in &self.gauges {
            // A group that has been removed tells nothing.
            let length = pread(file, &mut buffer, 0).unwrap_or(0);
            if let Ok(text) = std::str::from_utf8(&buffer[..length]) {
                gauge.read(text, &mut usage);
            }
        }
        usage.memory_peak_bytes = usage.memory_peak_bytes.or(usage.memory_bytes);
        usage
    }
}

/// The number after `key` in a file of `key value` lines.
pub(super) fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
