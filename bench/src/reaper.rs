//! The process above the one that measures: it takes in orphans and buries them.
//!
//! Containers leave processes behind whose parents have ended. Their memory is to be counted, so they must
//! stay below us; and once they end somebody has to take note. The kernel looks at every process of a group,
//! the dead among them, each time one of the group ends: two thousand that nobody had buried made empty
//! sandboxes a third slower. The process that measures cannot do it, since it would take the ends of those
//! it has started itself from under the hands of whoever waits for them.

use std::ffi::OsString;
use std::os::unix::process::parent_id;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitOptions, set_child_subreaper, wait};

/// The first argument of the process that measures.
pub(crate) const ARGUMENT: &str = "__kept";

/// The keeper's process, as seen by the one that measures.
pub(crate) fn id() -> u32 {
    parent_id()
}

/// Starts the process that measures and takes in whatever it leaves, until it ends.
pub(crate) fn keep(arguments: &[OsString]) -> Result<ExitCode> {
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

/// Ends this process with its keeper, which may be killed alone.
pub(crate) fn end_with_keeper() -> Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?)
}
