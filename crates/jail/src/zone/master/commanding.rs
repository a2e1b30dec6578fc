//! Commands: starting them in enclosures that stand, signalling them, and noticing their end.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{Pid, Signal, kill_process_group, pidfd_send_signal};

use super::{EnclosureState, Master};
use crate::command::{self, CommandLine, Errand, Streams};
use crate::protocol::{Exit, ZoneEvent, ZoneFailure, ZoneReply};
use crate::zone::zygote;

/// A command in an enclosure. It leads a session and a process group, and cannot leave them.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) enclosure: u64,
    pid: Pid,
    pidfd: OwnedFd,
    /// Processes of the enclosure killed for lack of memory before it started.
    oom_kills_before: u64,
}

/// A request to start a command.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) number: u64,
    pub(super) enclosure: u64,
    pub(super) command: u64,
    pub(super) line: CommandLine,
    pub(super) fail_at: u32,
    /// The report, then stdout, stderr and stdin as far as they are pipes.
    pub(super) fds: Vec<OwnedFd>,
}

impl Master<'_> {
    /// Forks a process that enters the enclosure and becomes the program; it reports to the engine.
    pub(super) fn start_command(&mut self, start: Start) -> io::Result<()> {
        let number = start.number;
        let result = self.try_start_command(&start);
        // The engine waits for the end of the report: no end of it may stay open here.
        drop(start);
        self.reply(number, result.map(|()| ZoneReply::Entered))
    }

    fn try_start_command(&mut self, start: &Start) -> Result<(), ZoneFailure> {
        self.require_enclosure(start.enclosure)?;
        let streams = start.line.streams;
        if start.fds.len() != streams.descriptors() {
            return Err(ZoneFailure::because(
                "enter-streams",
                "the descriptors do not fit the streams",
            ));
        }
        let errand =
            errand(start).map_err(|error| ZoneFailure::new(command::Step::Exec.name(), &error))?;
        let mut fds: Vec<i32> = start.fds.iter().map(AsRawFd::as_raw_fd).collect();
        if let Streams::Terminal(_) = streams {
            // Until it has its terminal, which it makes itself.
            fds.extend([fds[0], fds[0]]);
        }
        let mut request = self.entry(start.enclosure, start.command, start.fail_at);
        request.has_stdin = u32::from(streams == Streams::OutputAndInput);
        let oom_kills_before = self.enclosures[&start.enclosure].group.meter.read().oom_kills;
        let forked = self.fork_inside(start.enclosure, &request, &fds, || {
            command::carry_out(&errand);
        });
        let (pid, pidfd) = match forked {
            // The kernel refuses to fork into a pid namespace whose init is dying.
            Err(_) if self.is_ending(start.enclosure) => {
                return Err(ZoneFailure::because("enter-enclosure", "the enclosure has ended"));
            }
            other => other?,
        };
        let command = Command { enclosure: start.enclosure, pid, pidfd, oom_kills_before };
        self.commands.insert(start.command, command);
        Ok(())
    }

    /// Signals a command and its group; one that has ended is no error, and nothing else is hit: its
    /// number is not given to another process before it has been collected, and it is not in the
    /// table any more after that.
    pub(super) fn signal_command(&mut self, id: u64, signal: i32) -> Result<(), ZoneFailure> {
        let failure = |errno: rustix::io::Errno| ZoneFailure::new("signal", &errno.into());
        let signal =
            Signal::from_named_raw(signal).ok_or_else(|| failure(rustix::io::Errno::INVAL))?;
        let Some(command) = self.commands.get(&id) else { return Ok(()) };
        let mut sent = kill_process_group(command.pid, signal);
        if sent == Err(rustix::io::Errno::SRCH) {
            // It has not come far enough to lead a group.
            sent = pidfd_send_signal(&command.pidfd, signal);
        }
        match sent {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(failure(errno)),
        }
    }

    /// Tells the engine of a command's end, if a command it was.
    pub(super) fn command_exited(&mut self, pid: Pid, exit: Exit) -> io::Result<()> {
        let found = self.commands.iter().find(|(_, command)| command.pid == pid);
        let Some(id) = found.map(|(&id, _)| id) else { return Ok(()) };
        let command = self.commands.remove(&id).expect("found above");
        if self.died_with_enclosure(command.enclosure, exit) {
            return Ok(());
        }
        let enclosure = self.enclosures.get(&command.enclosure);
        let oom_kills = enclosure.map_or(0, |enclosure| enclosure.group.meter.read().oom_kills);
        let oom_kills = oom_kills.saturating_sub(command.oom_kills_before);
        self.event(ZoneEvent::CommandExited { command: id, exit, oom_kills })
    }

    /// Whether a process was killed by the kernel because its enclosure's init has ended, which is told
    /// by an event of its own: the init cannot be collected before all it took along.
    pub(super) fn died_with_enclosure(&self, enclosure: u64, exit: Exit) -> bool {
        let told = self.enclosures.get(&enclosure).is_some_and(|enclosure| {
            matches!(enclosure.state, EnclosureState::Standing) && enclosure.destroyers.is_empty()
        });
        told && exit == Exit::Signal(libc::SIGKILL) && self.is_ending(enclosure)
    }

    /// Whether an enclosure's init is on its way out.
    fn is_ending(&self, enclosure: u64) -> bool {
        /// `PF_EXITING` among the flags of proc_pid_stat(5).
        const EXITING: u64 = 4;
        let Some(enclosure) = self.enclosures.get(&enclosure) else { return true };
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", enclosure.pid.as_raw_nonzero()));
        let flags = stat.ok().and_then(|stat| {
            let (_, after_name) = stat.rsplit_once(") ")?;
            after_name.split(' ').nth(6)?.parse::<u64>().ok()
        });
        flags.is_none_or(|flags| flags & EXITING != 0)
    }
}

fn errand(start: &Start) -> io::Result<Errand> {
    let (arguments, environment) = zygote::strings(&start.line.program)?;
    let directory = CString::new(start.line.directory.as_str())?;
    let (streams, fail_at) = (start.line.streams, start.fail_at);
    Ok(Errand { directory, arguments, environment, streams, fail_at })
}
