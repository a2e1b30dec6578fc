//! The processes of this host, as /proc shows them.

use std::fs;

/// A process of this host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) name: String,
}

/// Every living process of this host.
pub(crate) fn processes() -> Vec<Process> {
    table().into_iter().filter(|(_, state)| state != "Z").map(|(process, _)| process).collect()
}

/// Descendants of a process that have ended and were not waited for.
pub(crate) fn zombies(pid: u32) -> Vec<Process> {
    let living: Vec<u32> = descendants(pid).into_iter().map(|process| process.pid).collect();
    let ours = |process: &Process| process.parent == pid || living.contains(&process.parent);
    let dead = table().into_iter().filter(|(process, state)| state == "Z" && ours(process));
    dead.map(|(process, _)| process).collect()
}

/// Every process of this host and its state.
fn table() -> Vec<(Process, String)> {
    let parse = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (start, end) = (line.find('(')?, line.rfind(')')?);
        let mut rest = line[end + 2..].split(' ');
        let (letter, parent) = (rest.next()?, rest.next()?.parse().ok()?);
        let name = line[start + 1..end].to_owned();
        Some((Process { pid, parent, name }, letter.to_owned()))
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(parse).collect()
}

/// Processes whose name, arguments or environment contain a marker, without the test itself.
pub(crate) fn processes_with(marker: &str) -> Vec<Process> {
    let holds = |process: &Process| {
        let file = |name: &str| fs::read(format!("/proc/{}/{name}", process.pid));
        let contains =
            |bytes: Vec<u8>| bytes.windows(marker.len()).any(|part| part == marker.as_bytes());
        process.pid != std::process::id()
            && (process.name.contains(marker)
                || ["cmdline", "environ"].iter().any(|name| file(name).is_ok_and(contains)))
    };
    processes().into_iter().filter(holds).collect()
}

/// All descendants of a process, nearest first.
pub(crate) fn descendants(pid: u32) -> Vec<Process> {
    let all = processes();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            parents.insert(0, process.pid);
            found.push(process.clone());
        }
    }
    found
}

/// How many descriptors a process has open; `None` when it has gone.
pub(crate) fn descriptors(pid: u32) -> Option<usize> {
    fs::read_dir(format!("/proc/{pid}/fd")).ok().map(Iterator::count)
}

/// A line of /proc/PID/status.
pub(crate) fn status_of(pid: u32, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap().trim().to_owned()
}

/// How many pid namespaces deep a process is, the host's included; `None` when it has gone.
pub(crate) fn namespace_depth(pid: u32) -> Option<usize> {
    namespace_ids(pid).map(|ids| ids.len())
}

/// The ids of a process from the host's namespace down to its own; `None` when it has gone.
pub(crate) fn namespace_ids(pid: u32) -> Option<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().map(|id| id.parse().ok()).collect()
}

/// Sends a signal to a process of this test.
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
