//! The machine that was measured on, as it describes itself.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    pub(crate) system: String,
    /// What it runs on, if it is no machine of its own.
    pub(crate) virtualisation: String,
    /// Which control groups are there.
    pub(crate) groups: String,
}

impl Machine {
    pub(crate) fn describe() -> Self {
        Self {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_bytes(),
            kernel: line("/proc/sys/kernel/osrelease"),
            system: system(),
            virtualisation: virtualisation(),
            groups: groups(),
        }
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn line(path: &str) -> String {
    read(path).trim().to_owned()
}

/// Returns the value of the line `name : value` of a file.
fn field(path: &str, name: &str) -> Option<String> {
    read(path).lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn memory_bytes() -> u64 {
    let total = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    total.split(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn system() -> String {
    let named = read("/etc/os-release")
        .lines()
        .find_map(|line| Some(line.strip_prefix("PRETTY_NAME=")?.trim_matches('"').to_owned()));
    named.unwrap_or_else(unknown)
}

/// The processor says whether it is virtual; firmware and hypervisor say what it is.
fn virtualisation() -> String {
    let flags = field("/proc/cpuinfo", "flags").unwrap_or_default();
    if !flags.split(' ').any(|flag| flag == "hypervisor") {
        return "none".to_owned();
    }
    let hypervisor = field("/proc/cpuinfo", "Hypervisor vendor").unwrap_or_default();
    let product = line("/sys/class/dmi/id/product_name");
    let said: Vec<&str> = [hypervisor.as_str(), product.as_str()]
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect();
    if said.is_empty() {
        "a virtual machine".to_owned()
    } else {
        format!("a virtual machine ({})", said.join(", "))
    }
}

fn groups() -> String {
    let mounts = read("/proc/self/mounts");
    let has = |kind: &str| mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
    match (has("cgroup"), has("cgroup2")) {
        (true, true) => "version 1 and 2".to_owned(),
        (true, false) => "version 1".to_owned(),
        (false, true) => "version 2".to_owned(),
        (false, false) => "none".to_owned(),
    }
}
