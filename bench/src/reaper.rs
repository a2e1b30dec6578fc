//! The parent of the measuring process: a child subreaper that reaps orphaned processes.
//!
//! Containers leave processes behind whose parents have ended. Their memory is counted, so they
//! must stay descendants of the bench, and they must be reaped when they end: whenever a process of
//! a control group ends, the kernel walks all processes of the group, zombies included. Two
//! thousand zombies made empty sandboxes a third slower. The measuring process cannot reap them
//! itself, since `wait` for any child would take the exit statuses of the children that it waits
//! for by id.

use std::ffi::OsString;
use std::os::unix::process::parent_id;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, set_child_subreaper, wait};

/// The first argument of the measuring process.
pub(crate) const ARGUMENT: &str = "__reaped";

/// Returns the process id of the reaper, in the measuring process.
pub(crate) fn id() -> u32 {
    parent_id()
}

/// Starts the measuring process, and reaps orphans until it ends; returns its exit code.
pub(crate) fn run(arguments: &[OsString]) -> Result<ExitCode> {
    set_child_subreaper(Pid::from_raw(1))?;
    let measuring = Command::new(std::env::current_exe()?).arg(ARGUMENT).args(arguments).spawn()?;
    let measuring = Pid::from_child(&measuring);
    loop {
        let (ended, status) =
            wait(WaitOptions::empty())?.context("a child ends, or there is none")?;
        if ended == measuring {
            let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
            return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
        }
    }
}

/// Makes the measuring process end with its reaper, if that is killed.
pub(crate) fn end_with_reaper() -> Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?)
}
