//! Control groups: v1, v2 and the mix of both, behind one set of functions.
//!
//! `host` runs with the rights of the user who starts Silica: it finds the controllers, makes the
//! zone's own group and gives it to the zone's user. From then on the zone master makes, limits,
//! reads and removes one group per sandbox without any privilege on the host.
//!
//! Tests: `tests/it/engine/limits.rs`, `tests/it/jail/ordinary_user.rs`.

pub mod host;
mod meter;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};

pub use meter::{Gauge, GroupUsage, Meter};

/// A controller Silica limits or measures with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Controller {
    /// Memory and swap.
    Memory,
    /// Number of processes and threads.
    Pids,
    /// Share of processor time.
    Cpu,
    /// Processor time used; part of `cpu` in v2.
    Cpuacct,
}

impl Controller {
    /// Every controller, in a fixed order.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Pids, Self::Cpu, Self::Cpuacct];

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
        }
    }
}

/// The interface of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// The limits of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupLimits {
    pub(crate) memory_bytes: u64,
    pub(crate) processes: u32,
    /// Thousandths of one processor.
    pub(crate) cpu_millis: u32,
}

/// What a group gets of the processors while other groups of its zone want them too, and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupShare {
    /// Its weight among the groups of the zone, as in `cpu.weight` of v2.
    pub weight: u32,
    /// Thousandths of one processor.
    pub cpu_millis: u32,
}

/// The weight that the kernel gives a new group.
pub const CPU_WEIGHT_DEFAULT: u32 = 100;

/// The largest weight of a sandbox, and that of the zone's own processes.
pub const CPU_WEIGHT_MAX: u32 = 8 * CPU_WEIGHT_DEFAULT;

/// The least limit of processor time: the kernel accepts no quota below a millisecond.
pub const CPU_MILLIS_MIN: u32 = 10;

/// `cpu.shares` of v1 for one unit of weight times `CPU_WEIGHT_DEFAULT`: the kernel's default.
const CPU_SHARES_DEFAULT: u32 = 1024;

/// A hierarchy, and the zone's own group in it.
#[derive(Debug)]
pub(crate) struct Hierarchy {
    pub(crate) version: Version,
    pub(crate) controllers: Vec<Controller>,
    /// The directory of the zone's own group.
    pub(crate) directory: OwnedFd,
}

impl Hierarchy {
    fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }
}

/// The zone's hierarchies; empty where the host offers none.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) hierarchies: Vec<Hierarchy>,
}

/// The most memory that may be charged to a group that is used again. It is not zero because the
/// kernel uncharges some memory late, and keeps a small reserve for each processor.
const CHARGED_BYTES_MAX: u64 = 1 << 20;

/// The period of a processor quota. It is the kernel's default, so that it need not be set in v1.
const CPU_PERIOD_US: u64 = 100_000;

impl Groups {
    /// Whether a hierarchy has the controller.
    pub(crate) fn has(&self, controller: Controller) -> bool {
        self.hierarchies.iter().any(|hierarchy| hierarchy.has(controller))
    }

    /// Whether swap is limited along with memory, or the host has none.
    pub(crate) fn limits_swap(&self) -> bool {
        let no_swap =
            std::fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() < 2);
        let file = |hierarchy: &Hierarchy| match hierarchy.version {
            Version::V1 => "memory.memsw.limit_in_bytes",
            Version::V2 => "memory.swap.max",
        };
        let limited = |hierarchy: &Hierarchy| {
            hierarchy.has(Controller::Memory)
                && open_file(hierarchy, host::ZONE_GROUP, file(hierarchy), OFlags::RDONLY).is_ok()
        };
        no_swap || self.hierarchies.iter().any(limited)
    }

    /// Makes the group `name` in every hierarchy, without limits.
    pub(crate) fn create(&self, name: &str) -> io::Result<()> {
        for hierarchy in &self.hierarchies {
            rustix::fs::mkdirat(&hierarchy.directory, name, Mode::from_raw_mode(0o755))?;
        }
        Ok(())
    }

    /// Sets the limits of a group.
    pub(crate) fn limit(&self, name: &str, limits: &GroupLimits) -> io::Result<()> {
        for hierarchy in &self.hierarchies {
            let set = |file: &str, value: String| write_file(hierarchy, name, file, &value);
            match hierarchy.version {
                Version::V1 if hierarchy.has(Controller::Memory) => {
                    limit_memory_v1(hierarchy, name, limits.memory_bytes)?;
                }
                Version::V2 if hierarchy.has(Controller::Memory) => {
                    set("memory.max", limits.memory_bytes.to_string())?;
                    optional(set("memory.swap.max", "0".to_owned()))?;
                }
                Version::V1 | Version::V2 => {}
            }
            if hierarchy.has(Controller::Cpu) {
                limit_cpu(hierarchy, name, limits.cpu_millis)?;
            }
            if hierarchy.has(Controller::Pids) {
                set("pids.max", limits.processes.to_string())?;
            }
        }
        Ok(())
    }

    /// Sets what a group gets of the processors.
    pub(crate) fn share(&self, name: &str, share: GroupShare) -> io::Result<()> {
        for hierarchy in self.hierarchies.iter().filter(|one| one.has(Controller::Cpu)) {
            weigh(hierarchy, name, share.weight)?;
            limit_cpu(hierarchy, name, share.cpu_millis)?;
        }
        Ok(())
    }

    /// Opens `cgroup.procs` of each hierarchy, by which a process moves itself into the group.
    pub(crate) fn procs_fds(&self, name: &str) -> io::Result<Vec<OwnedFd>> {
        let open = |hierarchy| open_file(hierarchy, name, "cgroup.procs", OFlags::WRONLY);
        self.hierarchies.iter().map(open).collect()
    }

    /// Opens the files that report the group's usage, as far as the kernel has them.
    pub(crate) fn meter(&self, name: &str) -> io::Result<Meter> {
        let mut gauges = Vec::new();
        for hierarchy in &self.hierarchies {
            for (gauge, file) in Gauge::of(hierarchy.version, &hierarchy.controllers) {
                match open_gauge(hierarchy, name, gauge, file) {
                    Ok(opened) => gauges.push((gauge, opened)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Meter::new(gauges))
    }

    /// Whether no process is in the group, nor one that is exiting; false if no controller counts
    /// them. It reads the counter `pids.current` and not `cgroup.procs`: in v1 the kernel may
    /// answer a second reading of that list from a copy.
    pub(crate) fn is_vacant(&self, name: &str) -> bool {
        let mut counting = self.hierarchies.iter().filter(|one| one.has(Controller::Pids));
        counting.any(|hierarchy| read_number(hierarchy, name, "pids.current").ok() == Some(0))
    }

    /// Whether at most `CHARGED_BYTES_MAX` are charged to the group, of memory and of swap.
    pub(crate) fn has_little_charged(&self, name: &str) -> bool {
        let little = |result: io::Result<u64>| result.is_ok_and(|bytes| bytes <= CHARGED_BYTES_MAX);
        let has_little = |hierarchy: &Hierarchy| {
            // What is swapped out would come back into the memory of the next sandbox.
            let (held, with_swap) = match hierarchy.version {
                Version::V1 => ("memory.usage_in_bytes", "memory.memsw.usage_in_bytes"),
                Version::V2 => ("memory.current", "memory.swap.current"),
            };
            let swap = match read_number(hierarchy, name, with_swap) {
                // The kernel was built without accounting of swap.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
                other => other,
            };
            little(read_number(hierarchy, name, held)) && little(swap)
        };
        self.hierarchies.iter().filter(|one| one.has(Controller::Memory)).all(has_little)
    }

    /// Removes the group. While its last process exits the kernel answers `EBUSY`; the caller tries
    /// again later.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let mut result = Ok(());
        for hierarchy in &self.hierarchies {
            match rustix::fs::unlinkat(&hierarchy.directory, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(errno) => result = Err(errno.into()),
            }
        }
        result
    }
}

/// Sets the weight of a group among its siblings.
fn weigh(hierarchy: &Hierarchy, name: &str, weight: u32) -> io::Result<()> {
    match hierarchy.version {
        Version::V1 => {
            let shares = weight * CPU_SHARES_DEFAULT / CPU_WEIGHT_DEFAULT;
            write_file(hierarchy, name, "cpu.shares", &shares.to_string())
        }
        Version::V2 => write_file(hierarchy, name, "cpu.weight", &weight.to_string()),
    }
}

/// Sets how much of the processors a group gets at most.
fn limit_cpu(hierarchy: &Hierarchy, name: &str, cpu_millis: u32) -> io::Result<()> {
    let quota = CPU_PERIOD_US * u64::from(cpu_millis) / 1000;
    match hierarchy.version {
        Version::V1 => write_file(hierarchy, name, "cpu.cfs_quota_us", &quota.to_string()),
        Version::V2 => write_file(hierarchy, name, "cpu.max", &format!("{quota} {CPU_PERIOD_US}")),
    }
}

/// Sets the limits of memory and of memory with swap in v1. The kernel never lets the second be
/// below the first: to lower them the first is set first, to raise them the second.
fn limit_memory_v1(hierarchy: &Hierarchy, name: &str, bytes: u64) -> io::Result<()> {
    let set = |file: &str| write_file(hierarchy, name, file, &bytes.to_string());
    let memory = "memory.limit_in_bytes";
    let both = "memory.memsw.limit_in_bytes";
    match set(memory) {
        Ok(()) => optional(set(both)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            optional(set(both))?;
            set(memory)
        }
        Err(error) => Err(error),
    }
}

/// Ignores that a control file is missing: the kernel was built without that accounting.
fn optional(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn open_file(hierarchy: &Hierarchy, name: &str, file: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let path = format!("{name}/{file}");
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(hierarchy.directory.as_fd(), path, flags, Mode::empty())?)
}

/// Opens the file of a gauge. That of the peak is opened for writing too, if it can be: writing
/// resets it, since Linux 6.12 in v2.
fn open_gauge(hierarchy: &Hierarchy, name: &str, gauge: Gauge, file: &str) -> io::Result<OwnedFd> {
    if gauge == Gauge::MemoryPeak
        && let Ok(opened) = open_file(hierarchy, name, file, OFlags::RDWR)
    {
        return Ok(opened);
    }
    open_file(hierarchy, name, file, OFlags::RDONLY)
}

fn read_number(hierarchy: &Hierarchy, name: &str, file: &str) -> io::Result<u64> {
    let opened = open_file(hierarchy, name, file, OFlags::RDONLY)?;
    let text = std::io::read_to_string(std::fs::File::from(opened))?;
    text.trim().parse().map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn write_file(hierarchy: &Hierarchy, name: &str, file: &str, value: &str) -> io::Result<()> {
    let opened = open_file(hierarchy, name, file, OFlags::WRONLY)?;
    std::fs::File::from(opened).write_all(value.as_bytes())
}
