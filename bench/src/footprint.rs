//! Memory, processor time and descriptors of processes, from `/proc`.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Clock ticks of `/proc/PID/stat` in a second; fixed for user space on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// How deep control groups are searched for.
const GROUP_DEPTH_MAX: usize = 6;

/// Memory of processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// What would be given back if they ended.
    pub(crate) private_bytes: u64,
    /// That and their share of what they have in common.
    pub(crate) proportional_bytes: u64,
}

impl Memory {
    pub(crate) fn of(processes: impl IntoIterator<Item = u32>) -> Self {
        let mut sum = Self::default();
        for pid in processes {
            let path = format!("/proc/{pid}/smaps_rollup");
            for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
                let bytes = kilobytes(line) * 1024;
                if line.starts_with("Private_") {
                    sum.private_bytes += bytes;
                } else if line.starts_with("Pss:") {
                    sum.proportional_bytes += bytes;
                }
            }
        }
        sum
    }
}

/// The resources of processes that must not grow. The memory is that of long-lived processes only,
/// since what zygotes and their forks share changes with every fork.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    processes: usize,
    mounts: usize,
    groups: usize,
    descriptors: usize,
    lasting_bytes: u64,
}

impl Footprint {
    pub(crate) fn of(family: &[u32], lasting: &[u32]) -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self {
            processes: family.len(),
            mounts: mounts.lines().count(),
            groups: groups(family),
            descriptors: family.iter().map(|&pid| descriptors(pid)).sum(),
            lasting_bytes: Memory::of(lasting.iter().copied()).private_bytes,
        }
    }

    /// How much more it is than before, by unit.
    pub(crate) fn growth_since(&self, before: &Self) -> [(f64, &'static str); 5] {
        let grown = |before: usize, after: usize| after as f64 - before as f64;
        let bytes = self.lasting_bytes as f64 - before.lasting_bytes as f64;
        [
            (grown(before.processes, self.processes), "processes"),
            (grown(before.mounts, self.mounts), "mounts"),
            (grown(before.groups, self.groups), "groups"),
            (grown(before.descriptors, self.descriptors), "descriptors"),
            (bytes / 1e6, "MB"),
        ]
    }
}

/// The number in a line such as `Pss:   1234 kB`.
fn kilobytes(line: &str) -> u64 {
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmRSS:")).map_or(0, kilobytes) * 1024
}

pub(crate) fn processor_seconds(pid: u32) -> f64 {
    let ticks = |index: usize| stat(pid).get(index).and_then(|field| field.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / TICKS_PER_SECOND
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Returns the fields after the name in `/proc/PID/stat`.
fn stat(pid: u32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = text.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().map(str::to_owned).collect()
}

/// Every process right below one.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    by_parent().remove(&parent).unwrap_or_default()
}

fn by_parent() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(parent) = stat(pid).get(1).and_then(|parent| parent.parse().ok()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// Every process below one, by parent.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let children = by_parent();
    let mut found = Vec::new();
    let mut pending = vec![root];
    while let Some(pid) = pending.pop() {
        for &child in children.get(&pid).into_iter().flatten() {
            found.push(child);
            pending.push(child);
        }
    }
    found
}

/// The control groups of these processes' zone, in all hierarchies.
fn groups(family: &[u32]) -> usize {
    let zones: HashSet<String> = family.iter().filter_map(|&pid| zone_of(pid)).collect();
    let all = directories_below(Path::new("/sys/fs/cgroup"), GROUP_DEPTH_MAX);
    let ours = |path: &&PathBuf| {
        path.iter().any(|part| part.to_str().is_some_and(|part| zones.contains(part)))
    };
    all.iter().filter(ours).count()
}

/// The name that a zone's groups have, by one of its processes.
fn zone_of(pid: u32) -> Option<String> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    groups.split(['/', '\n']).find(|part| part.starts_with("silica-")).map(str::to_owned)
}

fn directories_below(directory: &Path, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if depth > 0 {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.extend(directories_below(&entry.path(), depth - 1));
                found.push(entry.path());
            }
        }
    }
    found
}
