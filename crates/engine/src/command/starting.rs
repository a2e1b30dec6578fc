//! Starting a command: its streams, its program and environment, and what a refusal means. Reads
//! nothing that a command writes, and looks no name of a guest up on the host.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::streams::{self, CommandInput, Output, Terminal};
use super::{
    COMMANDS_MAX, CommandError, CommandHandle, CommandProcess, CommandSpec, Permit, Stdin,
};
use crate::tier::{
    CommandStart, CommandStartError, CommandStreams, Enclosure, GuestProgram, RefusedAt, TierError,
};

/// What every command of a template starts from.
#[derive(Debug)]
pub(crate) struct CommandDefaults {
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) has_bash: bool,
    /// The command line of the process that reads for the host (`inside`).
    pub(crate) reader: Vec<String>,
}

/// The commands of one sandbox.
#[derive(Debug)]
pub(crate) struct Commands {
    defaults: Arc<CommandDefaults>,
    permits: Arc<Semaphore>,
}

impl Commands {
    pub(crate) fn new(defaults: Arc<CommandDefaults>) -> Self {
        Self { defaults, permits: Arc::new(Semaphore::new(COMMANDS_MAX)) }
    }

    /// Returns the command that runs a line in bash where the template has it, else in sh.
    pub(crate) fn shell_line(&self, line: &str) -> CommandSpec {
        if self.defaults.has_bash {
            // A login shell, which reads /etc/profile: the template's `PATH` and prompt are set
            // there.
            CommandSpec::program(["/bin/bash", "-lc", line])
        } else {
            CommandSpec::program(["/bin/sh", "-c", line])
        }
    }

    /// Returns the command line of the process that reads for the host.
    pub(crate) fn reader(&self) -> &[String] {
        &self.defaults.reader
    }

    /// Starts a command in an enclosure; returns once the program runs.
    pub(crate) async fn start(
        &self,
        enclosure: &Arc<dyn Enclosure>,
        spec: &CommandSpec,
    ) -> Result<CommandProcess, CommandError> {
        spec.check()?;
        // Before the pipes are made, so that a sandbox at its bound costs the host no descriptor.
        // Not awaited: a caller would wait for a command that may never end.
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let permit = Arc::new(permit.map_err(|_| CommandError::TooMany)?);
        let (ours, ends) = HostEnds::make(spec, &permit).map_err(CommandError::Streams)?;
        let start = command_start(spec, &self.defaults, ends, permit);
        let started = enclosure.start_command(start).await;
        let started = started.map_err(|error| not_started(spec, error))?;
        let completed = ours.complete(started.terminal).map_err(CommandError::Streams);
        let handle = |terminal| CommandHandle {
            number: started.number,
            process_id: started.process_id,
            enclosure: Arc::clone(enclosure),
            life: started.life,
            terminal,
        };
        match completed {
            Ok((input, output, terminal)) => {
                Ok(CommandProcess { handle: handle(terminal), input, output: Some(output) })
            }
            Err(error) => {
                // The program runs, but its output can never be read.
                handle(None).kill_in_background();
                Err(error)
            }
        }
    }
}

/// The host's pipes, before the terminal is there.
struct HostEnds {
    pipes: Option<streams::Pipes>,
    permit: Permit,
}

/// Both directions, and what resizes the terminal if there is one.
pub(super) type Completed = (Option<CommandInput>, Output, Option<Arc<Terminal>>);

impl HostEnds {
    /// Makes the pipes of a command without a terminal; returns the guest's ends, too.
    fn make(spec: &CommandSpec, permit: &Permit) -> std::io::Result<(Self, Vec<OwnedFd>)> {
        let mut ends = Vec::new();
        let pipes = match spec.terminal {
            Some(_) => None,
            None => Some(streams::Pipes::make(spec.stdin, &mut ends)?),
        };
        Ok((Self { pipes, permit: Arc::clone(permit) }, ends))
    }

    fn complete(self, terminal: Option<OwnedFd>) -> std::io::Result<Completed> {
        let permit = self.permit;
        match (self.pipes, terminal) {
            (Some(pipes), _) => {
                let (input, output) = pipes.split(permit);
                Ok((input, output, None))
            }
            (None, Some(terminal)) => streams::terminal(terminal, permit),
            // The report of the start brings the terminal; without one there is nothing to read.
            (None, None) => Err(std::io::ErrorKind::InvalidData.into()),
        }
    }
}

pub(super) fn command_start(
    spec: &CommandSpec,
    defaults: &CommandDefaults,
    ends: Vec<OwnedFd>,
    permit: Permit,
) -> CommandStart {
    let mut environment = defaults.environment.clone();
    if spec.terminal.is_some() {
        // Before the caller's variables, which may name another. `TERM=dumb` of the template would
        // keep programs from using the terminal.
        environment.insert("TERM".to_owned(), "xterm-256color".to_owned());
    }
    environment.extend(spec.environment.clone());
    let streams = match (spec.terminal, spec.stdin) {
        (Some(size), _) => CommandStreams::Terminal(size),
        (None, Stdin::Piped) => CommandStreams::OutputAndInput,
        (None, Stdin::Closed) => CommandStreams::Output,
    };
    let program = GuestProgram {
        arguments: spec.arguments.clone(),
        environment: environment.into_iter().collect(),
    };
    let directory = spec.directory.clone();
    CommandStart { program, directory, streams, ends, permit, fail_at: spec.fail_at }
}

/// Error numbers of execve(2) and chdir(2), the same on every Linux.
pub(super) const ENOENT: i32 = 2;
pub(super) const E2BIG: i32 = 7;
pub(super) const ENOEXEC: i32 = 8;
pub(super) const EACCES: i32 = 13;
pub(super) const ENOTDIR: i32 = 20;
pub(super) const EINVAL: i32 = 22;
pub(super) const ETXTBSY: i32 = 26;
pub(super) const ENAMETOOLONG: i32 = 36;
pub(super) const ELOOP: i32 = 40;
pub(super) const ELIBBAD: i32 = 80;

fn not_started(spec: &CommandSpec, error: CommandStartError) -> CommandError {
    match error {
        CommandStartError::Refused { at, errno } => refused(spec, at, errno),
        CommandStartError::Ended(end) => CommandError::Killed(end),
        CommandStartError::Slow => CommandError::Slow,
        CommandStartError::Streams(error) => CommandError::Streams(error),
        CommandStartError::SandboxDied => CommandError::SandboxDied,
        CommandStartError::Tier(TierError::TooLong) => CommandError::TooLarge,
        CommandStartError::Tier(error) => CommandError::Tier(error),
    }
}

/// Turns a refused step and its error number into what the caller can act on.
pub(super) fn refused(spec: &CommandSpec, at: RefusedAt, errno: i32) -> CommandError {
    // `CommandSpec::check` has refused an empty list.
    let program = || spec.arguments[0].clone();
    match (at, errno) {
        (RefusedAt::Directory, _) => {
            CommandError::Directory { directory: spec.directory.clone(), errno }
        }
        // execve(2) answers ENOENT also if the interpreter that a script names is missing.
        (RefusedAt::Exec, ENOENT | ENOTDIR) => CommandError::NotFound(program()),
        (RefusedAt::Exec, E2BIG) => CommandError::TooLarge,
        (RefusedAt::Exec, ENAMETOOLONG) => {
            CommandError::Invalid("the program's name is too long".to_owned())
        }
        (RefusedAt::Exec, EACCES | ENOEXEC | EINVAL | ETXTBSY | ELOOP | ELIBBAD) => {
            CommandError::NotExecutable { program: program(), errno }
        }
        (RefusedAt::Exec, _) => CommandError::Refused { step: "enter-exec".to_owned(), errno },
        (RefusedAt::Step(step), _) => CommandError::Refused { step, errno },
    }
}
