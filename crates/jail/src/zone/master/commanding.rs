//! Commands: starting them in enclosures, signalling them, and reporting their end.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{Pid, Signal, kill_process_group, pidfd_send_signal};

use super::numbers::{CommandNumber, EnclosureNumber, RequestNumber};
use super::{EnclosureState, Master};
use crate::command::{self, CommandLine, PreparedCommand, Streams};
use crate::protocol::{ProcessExit, ZoneEvent, ZoneFailure, ZoneReply};
use crate::zone::zygote;

/// A command in an enclosure. It leads a session and a process group, and a leader cannot leave
/// either; setsid(2).
#[derive(Debug)]
pub(super) struct CommandProcess {
    pub(super) enclosure: EnclosureNumber,
    pid: Pid,
    pidfd: OwnedFd,
    /// How many processes of the enclosure had been killed for lack of memory before it started.
    oom_kills_before: u64,
}

/// A request to start a command.
#[derive(Debug)]
pub(super) struct StartCommand {
    pub(super) number: RequestNumber,
    pub(super) enclosure: EnclosureNumber,
    pub(super) command: CommandNumber,
    pub(super) line: CommandLine,
    pub(super) fail_at: u32,
    /// The report socket, then stdout, stderr and stdin as far as they are pipes.
    pub(super) fds: Vec<OwnedFd>,
}

impl Master<'_> {
    /// Forks a process that enters the enclosure and executes the program. The process itself
    /// reports to the engine how that went.
    pub(super) fn start_command(&mut self, start: StartCommand) -> io::Result<()> {
        let number = start.number;
        let result = self.try_start_command(&start);
        // The engine waits until every copy of the report socket's other end is closed.
        drop(start);
        self.reply(number, result.map(|()| ZoneReply::Entered))
    }

    fn try_start_command(&mut self, start: &StartCommand) -> Result<(), ZoneFailure> {
        self.require_enclosure(start.enclosure)?;
        let streams = start.line.streams;
        if start.fds.len() != streams.descriptors() {
            return Err(ZoneFailure::because(
                "enter-streams",
                format!("{} descriptors are needed for these streams", streams.descriptors()),
            ));
        }
        let prepared =
            prepare(start).map_err(|error| ZoneFailure::new(command::Step::Exec.name(), &error))?;
        let mut fds: Vec<i32> = start.fds.iter().map(AsRawFd::as_raw_fd).collect();
        if let Streams::Terminal(_) = streams {
            // It opens its terminal itself, inside. Until then the report socket fills the places
            // of stdout and stderr.
            fds.extend([fds[0], fds[0]]);
        }
        let mut request = self.entry(start.enclosure, start.command.0, start.fail_at);
        request.has_stdin = u32::from(streams == Streams::OutputAndInput);
        let oom_kills_before = self.enclosures[&start.enclosure].group.meter.read().oom_kills;
        let forked = self.fork_inside(start.enclosure, &request, &fds, || {
            command::run(&prepared);
        });
        let (pid, pidfd) = match forked {
            // The kernel refuses to fork into a pid namespace whose init is exiting.
            Err(_) if self.is_ending(start.enclosure) => {
                return Err(ZoneFailure::because("enter-enclosure", "the enclosure has ended"));
            }
            other => other?,
        };
        let command = CommandProcess { enclosure: start.enclosure, pid, pidfd, oom_kills_before };
        self.commands.insert(start.command, command);
        Ok(())
    }

    /// Signals a command and its process group. It is no error if the command has ended. No other
    /// process can be hit: the kernel does not use a pid again before the process was reaped, and a
    /// reaped command is not in the table any more.
    pub(super) fn signal_command(
        &mut self,
        id: CommandNumber,
        signal: i32,
    ) -> Result<(), ZoneFailure> {
        let failure = |errno: rustix::io::Errno| ZoneFailure::new("signal", &errno.into());
        let signal =
            Signal::from_named_raw(signal).ok_or_else(|| failure(rustix::io::Errno::INVAL))?;
        let Some(command) = self.commands.get(&id) else { return Ok(()) };
        let mut sent = kill_process_group(command.pid, signal);
        if sent == Err(rustix::io::Errno::SRCH) {
            // It has not yet called `setsid`, so there is no group of this number.
            sent = pidfd_send_signal(&command.pidfd, signal);
        }
        match sent {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(failure(errno)),
        }
    }

    /// Sends an event for the end of a command, if the process was one.
    pub(super) fn command_exited(&mut self, pid: Pid, exit: ProcessExit) -> io::Result<()> {
        let found = self.commands.iter().find(|(_, command)| command.pid == pid);
        let Some(id) = found.map(|(&id, _)| id) else { return Ok(()) };
        let command = self.commands.remove(&id).expect("found above");
        if self.died_with_enclosure(command.enclosure, exit) {
            return Ok(());
        }
        let enclosure = self.enclosures.get(&command.enclosure);
        let oom_kills = enclosure.map_or(0, |enclosure| enclosure.group.meter.read().oom_kills);
        let oom_kills = oom_kills.saturating_sub(command.oom_kills_before);
        self.event(ZoneEvent::CommandExited { command: id.0, exit, oom_kills })
    }

    /// Whether the kernel killed a process because its enclosure's init has ended. The end of the
    /// enclosure is an event of its own, which comes later: the kernel lets an init be reaped only
    /// after all other processes of its pid namespace.
    pub(super) fn died_with_enclosure(
        &self,
        enclosure: EnclosureNumber,
        exit: ProcessExit,
    ) -> bool {
        let has_event = self.enclosures.get(&enclosure).is_some_and(|enclosure| {
            matches!(enclosure.state, EnclosureState::Ready) && enclosure.destroyers.is_empty()
        });
        has_event && exit == ProcessExit::Signal(libc::SIGKILL) && self.is_ending(enclosure)
    }

    /// Whether an enclosure's init is exiting or has exited.
    fn is_ending(&self, enclosure: EnclosureNumber) -> bool {
        /// `PF_EXITING` among the flags of proc_pid_stat(5).
        const EXITING: u64 = 4;
        let Some(enclosure) = self.enclosures.get(&enclosure) else { return true };
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", enclosure.pid.as_raw_nonzero()));
        let flags = stat.ok().and_then(|stat| {
            // The name in brackets may hold anything; the flags are the seventh field after it.
            let (_, after_name) = stat.rsplit_once(") ")?;
            after_name.split(' ').nth(6)?.parse::<u64>().ok()
        });
        flags.is_none_or(|flags| flags & EXITING != 0)
    }
}

fn prepare(start: &StartCommand) -> io::Result<PreparedCommand> {
    let (arguments, environment) = zygote::exec_strings(&start.line.program)?;
    let directory = CString::new(start.line.directory.as_str())?;
    Ok(PreparedCommand {
        directory,
        arguments,
        environment,
        streams: start.line.streams,
        fail_at: start.fail_at,
    })
}
