//! What systemd, AppArmor and the list of users have to be told about an installation. This file
//! alone starts programs of the host for that; where the host lacks one, nothing is told.

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The profile that `silica install` writes as root.
const PROFILE: &str = "/etc/apparmor.d/silica";
/// Present while systemd is the init process (`sd_booted(3)`).
const SYSTEMD_RUNS: &str = "/run/systemd/system";
/// Present while AppArmor is active.
const PROFILES_LOADED: &str = "/sys/kernel/security/apparmor/profiles";
const UNITS: [&str; 2] = ["silica.service", "silica-unprivileged.service"];
/// The user of the second unit, made by systemd-sysusers.
const USER: &str = "silica";

/// What of the host knows about installations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostServices {
    systemd: bool,
    apparmor: bool,
    user: bool,
}

/// A command for the host, without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SystemCommand(Vec<&'static str>);

impl HostServices {
    /// Looks at this host.
    pub(crate) fn of_this_host() -> Self {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let is_root = rustix::process::geteuid().is_root();
        Self {
            systemd: is_root && Path::new(SYSTEMD_RUNS).exists(),
            apparmor: is_root && Path::new(PROFILES_LOADED).exists(),
            user: is_root && users.lines().any(|line| line.starts_with("silica:")),
        }
    }

    /// Returns what follows the installation of these files: the kernel takes no profile from a file.
    pub(crate) fn after_install(self, files: &[PathBuf]) -> Vec<SystemCommand> {
        let load = SystemCommand(vec!["apparmor_parser", "-r", "-W", PROFILE]);
        if self.apparmor && has_profile(files) { vec![load] } else { Vec::new() }
    }

    /// Returns what precedes the removal of these files.
    pub(crate) fn before_removal(self, files: &[PathBuf]) -> Vec<SystemCommand> {
        let mut commands = Vec::new();
        if self.systemd && has_units(files) {
            let words = ["systemctl", "disable", "--now"].into_iter().chain(UNITS);
            commands.push(SystemCommand(words.collect()));
        }
        if self.apparmor && has_profile(files) {
            commands.push(SystemCommand(vec!["apparmor_parser", "-R", PROFILE]));
        }
        commands
    }

    /// Returns what follows the removal of these files, and of the data if that is removed too.
    pub(crate) fn after_removal(self, files: &[PathBuf], purge: bool) -> Vec<SystemCommand> {
        let mut commands = Vec::new();
        if self.systemd && has_units(files) {
            commands.push(SystemCommand(vec!["systemctl", "daemon-reload"]));
        }
        if self.user && purge && has_units(files) {
            commands.push(SystemCommand(vec!["userdel", USER]));
        }
        commands
    }
}

impl SystemCommand {
    /// Runs the command to its end; says so if it fails, which leaves the rest to do.
    pub(crate) fn run(&self) {
        let [program, arguments @ ..] = self.0.as_slice() else { return };
        let ran = Command::new(program).args(arguments).stdin(Stdio::null()).status();
        match ran {
            Ok(status) if status.success() => {}
            Ok(status) => say!("silica: {self} failed ({status}); run it again by hand"),
            Err(error) => say!("silica: cannot run {self}: {error}; run it by hand"),
        }
    }
}

impl fmt::Display for SystemCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(" "))
    }
}

/// Returns whether systemd's units are among the files.
pub(crate) fn has_units(files: &[PathBuf]) -> bool {
    files.iter().any(|path| path.ends_with("systemd/system/silica.service"))
}

fn has_profile(files: &[PathBuf]) -> bool {
    files.iter().any(|path| path == Path::new(PROFILE))
}
