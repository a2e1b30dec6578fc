//! Starting a command: asking the zone, listening to the report, and taking back what nobody wants.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use silica_jail::client::ZoneError;
use silica_jail::command::{self as jail, CommandLine, Word};
use silica_jail::protocol::{Program, ZoneRequest};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, oneshot, watch};

use super::streams::{self, Input, Output, Terminal};
use super::{
    COMMANDS_MAX, Command, CommandEnd, CommandError, CommandExit, CommandHandle, CommandSpec,
    Permit, START_PATIENCE, Stdin, ended,
};
use crate::zone::{CallError, Reply, ZoneHandle, borrowed};

/// How long the zone's word of an end may lag behind the end of a report.
const LIFE_LAG: Duration = Duration::from_secs(2);

/// The signal nobody can ignore.
const SIGKILL: i32 = 9;

/// What every command of a template starts from.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) has_bash: bool,
}

/// The commands of one sandbox.
#[derive(Debug)]
pub(crate) struct Commands {
    surroundings: Arc<Surroundings>,
    permits: Arc<Semaphore>,
}

impl Commands {
    pub(crate) fn new(surroundings: Arc<Surroundings>) -> Self {
        Self { surroundings, permits: Arc::new(Semaphore::new(COMMANDS_MAX)) }
    }

    /// A line for the best shell there is.
    pub(crate) fn line(&self, line: &str) -> CommandSpec {
        if self.surroundings.has_bash {
            CommandSpec::program(["/bin/bash", "-lc", line])
        } else {
            CommandSpec::program(["/bin/sh", "-c", line])
        }
    }

    /// Starts a command in an enclosure; returns once the program runs.
    pub(crate) async fn start(
        &self,
        zone: &ZoneHandle,
        enclosure: u64,
        spec: &CommandSpec,
    ) -> Result<Command, CommandError> {
        spec.check()?;
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let permit = Arc::new(permit.map_err(|_| CommandError::TooMany)?);
        let (report, ours, theirs) = connect(spec, &permit).map_err(CommandError::Streams)?;
        let mut starting = Starting::new(zone, enclosure, permit);
        let wanted = command_line(spec, &self.surroundings);
        starting.ask(enclosure, wanted, spec.fail_at, theirs).await.map_err(not_asked)?;
        let heard = tokio::time::timeout(START_PATIENCE, listen(report)).await;
        let heard = heard.map_err(|_| CommandError::Slow)?.map_err(CommandError::Streams)?;
        let (process_id, terminal) = match heard {
            Heard::Runs { process_id, terminal } => (process_id, terminal),
            Heard::Refused { step, errno } => return Err(refused(spec, step, errno)),
            Heard::Silence => return Err(killed(starting.life.clone()).await),
        };
        let (input, output, terminal) = ours.complete(terminal).map_err(CommandError::Streams)?;
        let (id, life) = starting.succeed();
        let handle = CommandHandle { id, process_id, zone: zone.clone(), life, terminal };
        Ok(Command { handle, input, output: Some(output) })
    }
}

/// A command on its way. If nobody waits for it any more it is killed, and its place given back.
struct Starting<'a> {
    id: u64,
    zone: &'a ZoneHandle,
    life: watch::Receiver<Option<CommandEnd>>,
    state: State,
}

enum State {
    /// The zone has not been asked, or did not do it.
    Absent,
    /// The zone has not answered yet.
    Asked(oneshot::Receiver<Reply>),
    /// There is a process, whose end will be told.
    Forked,
    /// The program runs.
    Done,
}

impl<'a> Starting<'a> {
    fn new(zone: &'a ZoneHandle, enclosure: u64, permit: Permit) -> Self {
        let id = zone.number();
        let life = zone.watch_command(enclosure, id, permit);
        Self { id, zone, life, state: State::Absent }
    }

    /// Has the zone fork; closes the descriptors here, so that the ends of streams show.
    async fn ask(
        &mut self,
        enclosure: u64,
        line: CommandLine,
        fail_at: u32,
        fds: Vec<OwnedFd>,
    ) -> Result<(), CallError> {
        let request = ZoneRequest::StartCommand { enclosure, command: self.id, line, fail_at };
        self.state = State::Asked(self.zone.send(request, &borrowed(&fds))?);
        drop(fds);
        if let State::Asked(answer) = &mut self.state {
            let answer = answer.await;
            self.state = State::Absent;
            answer.unwrap_or(Err(CallError::Gone))?;
        }
        self.state = State::Forked;
        Ok(())
    }

    fn succeed(mut self) -> (u64, watch::Receiver<Option<CommandEnd>>) {
        self.state = State::Done;
        (self.id, self.life.clone())
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Done => {}
            State::Absent => self.zone.forget_command(self.id),
            State::Forked => kill(self.zone, self.id),
            State::Asked(answer) => {
                let (zone, id) = (self.zone.clone(), self.id);
                // Without a runtime the whole zone is ending.
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(async move {
                        match answer.await {
                            Ok(Ok(_)) => kill(&zone, id),
                            Ok(Err(_)) | Err(_) => zone.forget_command(id),
                        }
                    });
                }
            }
        }
    }
}

/// Kills a command and waits for nothing.
fn kill(zone: &ZoneHandle, command: u64) {
    // A zone that has gone took it along.
    let _ = zone.send(ZoneRequest::SignalCommand { command, signal: SIGKILL }, &[]);
}

/// What the report of an entering command came to.
enum Heard {
    Runs {
        process_id: u32,
        terminal: Option<OwnedFd>,
    },
    Refused {
        step: String,
        errno: i32,
    },
    /// It ended without having entered.
    Silence,
}

/// Listens to the report until the program runs or has not come to be.
async fn listen(report: UnixStream) -> std::io::Result<Heard> {
    let mut heard = Heard::Silence;
    loop {
        let word = report.async_io(Interest::READABLE, || jail::hear(&report)).await?;
        match word {
            Word::Entered { process_id, terminal } => heard = Heard::Runs { process_id, terminal },
            Word::Refused { step, errno } => heard = Heard::Refused { step, errno },
            Word::Nothing => return Ok(heard),
        }
    }
}

/// This side's pipes, before the terminal is there.
struct Ours {
    pipes: Option<streams::Pipes>,
    permit: Permit,
}

/// Both directions, and what resizes the terminal if there is one.
pub(super) type Completed = (Option<Input>, Output, Option<Arc<Terminal>>);

impl Ours {
    fn complete(self, terminal: Option<OwnedFd>) -> std::io::Result<Completed> {
        let permit = self.permit;
        match (self.pipes, terminal) {
            (Some(pipes), _) => {
                let (input, output) = pipes.split(permit);
                Ok((input, output, None))
            }
            (None, Some(terminal)) => streams::terminal(terminal, permit),
            (None, None) => Err(std::io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Makes the report and the streams; returns the report, our ends, and the descriptors to send.
fn connect(
    spec: &CommandSpec,
    permit: &Permit,
) -> std::io::Result<(UnixStream, Ours, Vec<OwnedFd>)> {
    let (report, theirs) = jail::report()?;
    let mut fds = vec![theirs];
    let pipes = match spec.terminal {
        Some(_) => None,
        None => Some(streams::Pipes::make(spec.stdin, &mut fds)?),
    };
    let report = UnixStream::from_std(report.into())?;
    Ok((report, Ours { pipes, permit: Arc::clone(permit) }, fds))
}

pub(super) fn command_line(spec: &CommandSpec, surroundings: &Surroundings) -> CommandLine {
    let mut environment = surroundings.environment.clone();
    if spec.terminal.is_some() {
        environment.insert("TERM".to_owned(), "xterm-256color".to_owned());
    }
    environment.extend(spec.environment.clone());
    let streams = match (spec.terminal, spec.stdin) {
        (Some(size), _) => jail::Streams::Terminal(size),
        (None, Stdin::Piped) => jail::Streams::OutputAndInput,
        (None, Stdin::Closed) => jail::Streams::Output,
    };
    let program = Program {
        arguments: spec.arguments.clone(),
        environment: environment.into_iter().collect(),
    };
    CommandLine { program, directory: spec.directory.clone(), streams }
}

/// Why the zone did not even try.
fn not_asked(error: CallError) -> CommandError {
    match error {
        CallError::Failed(failure) if failure.step == "enter-enclosure" => {
            CommandError::SandboxDied
        }
        CallError::Gone => CommandError::SandboxDied,
        CallError::Zone(ZoneError::TooLong) => CommandError::TooLarge,
        error => CommandError::Zone(error),
    }
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

/// What a refusal means to whoever asked.
pub(super) fn refused(spec: &CommandSpec, step: String, errno: i32) -> CommandError {
    let (program, directory) = (spec.arguments[0].clone(), spec.directory.clone());
    let is = |one: jail::Step| one.name() == step;
    match errno {
        _ if is(jail::Step::Directory) => CommandError::Directory { directory, errno },
        ENOENT | ENOTDIR if is(jail::Step::Exec) => CommandError::NotFound(program),
        E2BIG if is(jail::Step::Exec) => CommandError::TooLarge,
        ENAMETOOLONG if is(jail::Step::Exec) => {
            CommandError::Invalid("the program's name is too long".to_owned())
        }
        EACCES | ENOEXEC | EINVAL | ETXTBSY | ELOOP | ELIBBAD if is(jail::Step::Exec) => {
            CommandError::NotExecutable { program, errno }
        }
        _ => CommandError::Refused { step, errno },
    }
}

/// It ended on its way in: because somebody killed it, or because the sandbox died.
async fn killed(mut life: watch::Receiver<Option<CommandEnd>>) -> CommandError {
    let unknown = CommandEnd { exit: CommandExit::Signal(SIGKILL), out_of_memory: false };
    let end = tokio::time::timeout(LIFE_LAG, ended(&mut life)).await.unwrap_or(unknown);
    match end.exit {
        CommandExit::SandboxDied => CommandError::SandboxDied,
        CommandExit::Status(_) | CommandExit::Signal(_) => CommandError::Killed(end),
    }
}
