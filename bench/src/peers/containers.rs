//! Peers that are commands: plain Python, bubblewrap, crun, podman, runsc.
//!
//! All run the template's own interpreter with the template's packages, at the paths at which plain
//! Python has them, so what differs is what is around it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Place;
use super::driver::Driver;
use super::spawn::{ARGUMENT, BUNDLE, NAME, PROGRAM, Plan};
use crate::plain::Plain;

/// The host's directories that an interpreter needs.
const SYSTEM: [&str; 5] = ["/usr", "/lib", "/lib64", "/bin", "/etc"];

pub(super) fn plain(_place: &Place, plain: &Plain) -> Result<Driver> {
    let version = first_words(
        Command::new(plain.interpreter())
            .arg("--version")
            .env("LD_LIBRARY_PATH", plain.libraries()),
    );
    start(&Plan { version, ..direct(plain, &[PROGRAM]) }, false)
}

pub(super) fn bubblewrap(place: &Place, plain: &Plain) -> Result<Driver> {
    place.program("bwrap", "bubblewrap")?;
    let version = first_words(Command::new("bwrap").arg("--version"));
    let around = ["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"];
    let made = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"];
    let mut command = vec!["bwrap".to_owned()];
    command.extend(around.iter().chain(&made).map(|word| (*word).to_owned()));
    // What lay below one of these is put back.
    for directory in directories(plain) {
        let directory = directory.display().to_string();
        command.extend(["--ro-bind".to_owned(), directory.clone(), directory]);
    }
    command.push(PROGRAM.to_owned());
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    start(&Plan { version, ..direct(plain, &command) }, false)
}

pub(super) fn crun(place: &Place, plain: &Plain) -> Result<Driver> {
    place.program("crun", "crun")?;
    let version = first_words(Command::new("crun").arg("--version"));
    let state = place.scratch("crun")?;
    let root = state.display().to_string();
    let command = ["crun", "--root", &root, "--cgroup-manager=disabled", "run", "-b", BUNDLE, NAME];
    let container = Some(description(place, plain, "crun")?);
    start(&Plan { version, container, ..direct(plain, &command) }, only_version_two_is_missing())
}

pub(super) fn runsc(place: &Place, plain: &Plain) -> Result<Driver> {
    place.program("runsc", "runsc")?;
    let version = first_words(Command::new("runsc").arg("--version"));
    let state = place.scratch("runsc")?;
    let root = state.display().to_string();
    let command = [
        "runsc",
        "--root",
        &root,
        "--ignore-cgroups",
        "--network=none",
        "--platform=ptrace",
        "run",
        "--bundle",
        BUNDLE,
        NAME,
    ];
    let container = Some(description(place, plain, "runsc")?);
    start(&Plan { version, container, ..direct(plain, &command) }, false)
}

pub(super) fn podman(place: &Place, plain: &Plain) -> Result<Driver> {
    place.program("podman", "podman")?;
    place.program("crun", "crun")?;
    let version = first_words(Command::new("podman").arg("--version"));
    let (storage, state) = (place.scratch("podman")?, place.scratch("podman-run")?);
    let mut command: Vec<String> =
        ["podman", "--cgroup-manager=cgroupfs", "--runtime=crun", "--storage-driver=vfs"]
            .map(str::to_owned)
            .into();
    command.extend(["--root".to_owned(), storage.display().to_string()]);
    command.extend(["--runroot".to_owned(), state.display().to_string()]);
    let quiet = [
        "run",
        "--rm",
        "-i",
        "--network=none",
        "--cgroups=disabled",
        "--read-only",
        "--log-driver=none",
        "--ulimit=nofile=1024:1024",
        "--ulimit=nproc=4096:4096",
    ];
    command.extend(quiet.map(str::to_owned));
    for (name, value) in plain.environment() {
        command.push(format!("--env={name}={value}"));
    }
    let rootfs = rootfs(place, plain, "podman")?;
    for directory in directories(plain) {
        command.push(format!("--volume={0}:{0}:ro", directory.display()));
    }
    command.extend(["--rootfs".to_owned(), rootfs.display().to_string(), PROGRAM.to_owned()]);
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let environment =
        std::env::vars().filter(|(name, _)| name == "PATH" || name == "HOME").collect();
    let whole = Plan { version, environment, ..direct(plain, &words) };
    start(&whole, only_version_two_is_missing())
}

/// A plan that is a command line and nothing else.
fn direct(plain: &Plain, command: &[&str]) -> Plan {
    let mut environment = plain.environment();
    environment.extend(std::env::vars().filter(|(name, _)| name == "PATH"));
    Plan {
        version: String::new(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        environment,
        interpreter: plain.interpreter().display().to_string(),
        container: None,
    }
}

/// Starts the driver, where asked in a mount namespace in which control groups look as this
/// peer wants them.
fn start(plan: &Plan, own_view_of_groups: bool) -> Result<Driver> {
    let own = std::env::current_exe().context("this program has no path")?;
    let mut command = if own_view_of_groups {
        let mut command = Command::new("unshare");
        let script = "mount -t cgroup2 none /sys/fs/cgroup && exec \"$0\" \"$@\"";
        command.args(["--mount", "sh", "-c", script]).arg(own);
        command
    } else {
        Command::new(own)
    };
    command.arg(ARGUMENT);
    Driver::start_with(command, serde_json::to_value(plan)?)
}

/// Whether control groups of version 1 are in the way of those who know only version 2.
fn only_version_two_is_missing() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut fields = mounts.lines().map(|line| line.split(' ').skip(1));
    !fields.any(|mut line| line.next() == Some("/sys/fs/cgroup") && line.next() == Some("cgroup2"))
}

/// Where the interpreter, its library and its packages lie on the host.
fn directories(plain: &Plain) -> Vec<PathBuf> {
    let prefix = plain.interpreter().parent().and_then(Path::parent).unwrap_or(Path::new("/usr"));
    let system = SYSTEM.iter().map(PathBuf::from).filter(|path| path.is_dir());
    let mut all: Vec<PathBuf> = system.collect();
    for path in [prefix, plain.site(), plain.libraries()] {
        if path.is_dir() && !all.iter().any(|known| path.starts_with(known)) {
            all.push(path.to_owned());
        }
    }
    all
}

/// A directory with nothing in it but the places where the host's are mounted.
fn rootfs(place: &Place, plain: &Plain, name: &str) -> Result<PathBuf> {
    let rootfs = place.scratch(&format!("{name}-rootfs"))?;
    let made = ["/proc", "/dev", "/sys", "/tmp", "/run"].map(PathBuf::from);
    for directory in directories(plain).iter().chain(&made) {
        let inside = rootfs.join(directory.strip_prefix("/").unwrap_or(directory));
        std::fs::create_dir_all(inside)?;
    }
    Ok(rootfs)
}

/// A container as OCI describes it, and where its bundles go.
fn description(place: &Place, plain: &Plain, name: &str) -> Result<(Value, PathBuf)> {
    let rootfs = rootfs(place, plain, name)?;
    let bind = |path: &PathBuf| json!({"destination": path, "source": path, "type": "bind", "options": ["rbind", "ro"]});
    let mut mounts = vec![
        json!({"destination": "/proc", "source": "proc", "type": "proc"}),
        json!({"destination": "/tmp", "source": "tmpfs", "type": "tmpfs", "options": ["mode=1777"]}),
        json!({"destination": "/dev", "source": "tmpfs", "type": "tmpfs", "options": ["nosuid", "mode=755"]}),
    ];
    mounts.extend(directories(plain).iter().map(bind));
    let namespaces: Vec<Value> = ["pid", "network", "ipc", "uts", "mount"]
        .iter()
        .map(|kind| json!({"type": kind}))
        .collect();
    let environment: Vec<String> =
        plain.environment().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let description = json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false, "user": {"uid": 0, "gid": 0}, "args": [], "env": environment,
            "cwd": "/", "noNewPrivileges": true,
        },
        "root": {"path": rootfs, "readonly": true},
        "hostname": "bench",
        "mounts": mounts,
        "linux": {"namespaces": namespaces},
    });
    Ok((description, place.scratch(&format!("{name}-bundles"))?))
}

/// Returns the first line that a command prints, such as its version.
fn first_words(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_owned()
}
