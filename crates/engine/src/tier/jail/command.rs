//! Starting a command in an enclosure: the request to the zone, the report of the entering process,
//! and killing a command whose start is no longer awaited.

use std::os::fd::OwnedFd;
use std::time::Duration;

use silica_jail::command::{self as jail, CommandLine, Word};
use silica_jail::protocol::ZoneRequest;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{oneshot, watch};

use super::zone::{Reply, ZoneHandle, borrowed};
use crate::command::{CommandEnd, CommandExit, Permit, START_PATIENCE, ended};
use crate::tier::{
    CommandNumber, CommandStart, CommandStartError, CommandStreams, RefusedAt, StartedCommand,
    TierError,
};

/// How long the zone's event of an end may lag behind the end of a report.
const LIFE_LAG: Duration = Duration::from_secs(2);

const SIGKILL: i32 = 9;

/// Starts a command; completes once its program runs.
pub(super) async fn start(
    zone: &ZoneHandle,
    enclosure: u64,
    start: CommandStart,
) -> Result<StartedCommand, CommandStartError> {
    let (report, theirs) = jail::report().map_err(CommandStartError::Streams)?;
    let report = UnixStream::from_std(report.into()).map_err(CommandStartError::Streams)?;
    // The zone wants the report before the pipes.
    let mut fds = vec![theirs];
    fds.extend(start.ends);
    // Watched before it is requested: a short command may have ended before the reply is read.
    let mut starting = Starting::new(zone, enclosure, start.permit);
    let request = CommandLine {
        program: start.program.into(),
        directory: start.directory,
        streams: streams(start.streams),
    };
    starting.request(enclosure, request, start.fail_at, fds).await.map_err(not_requested)?;
    let reported = tokio::time::timeout(START_PATIENCE, listen(report)).await;
    let reported = reported.map_err(|_| CommandStartError::Slow)?;
    match reported.map_err(CommandStartError::Streams)? {
        Reported::Runs { process_id, terminal } => {
            let (number, life) = starting.succeed();
            Ok(StartedCommand { number, process_id, terminal, life })
        }
        Reported::Refused { step, errno } => {
            Err(CommandStartError::Refused { at: refused_at(step), errno })
        }
        // Nothing was said: the process was killed on its way in, or the sandbox has died.
        Reported::Silence => Err(killed(starting.life.clone()).await),
    }
}

fn streams(streams: CommandStreams) -> jail::Streams {
    match streams {
        CommandStreams::Output => jail::Streams::Output,
        CommandStreams::OutputAndInput => jail::Streams::OutputAndInput,
        CommandStreams::Terminal(size) => {
            let size = jail::WindowSize { rows: size.rows, columns: size.columns };
            jail::Streams::Terminal(size)
        }
    }
}

/// A command on its way. Dropping this before it succeeds kills the command and releases its
/// permit.
struct Starting<'a> {
    number: u64,
    zone: &'a ZoneHandle,
    life: watch::Receiver<Option<CommandEnd>>,
    state: State,
}

enum State {
    /// The zone was not asked, or refused.
    Absent,
    /// The zone has not replied yet.
    Requested(oneshot::Receiver<Reply>),
    /// There is a process, whose end the zone will report.
    Forked,
    /// The program runs.
    Done,
}

impl<'a> Starting<'a> {
    fn new(zone: &'a ZoneHandle, enclosure: u64, permit: Permit) -> Self {
        let number = zone.number();
        let life = zone.watch_command(enclosure, number, permit);
        Self { number, zone, life, state: State::Absent }
    }

    /// Has the zone fork; closes the descriptors here, so that the ends of streams show.
    async fn request(
        &mut self,
        enclosure: u64,
        line: CommandLine,
        fail_at: u32,
        fds: Vec<OwnedFd>,
    ) -> Result<(), TierError> {
        let command = self.number;
        let request = ZoneRequest::StartCommand { enclosure, command, line, fail_at };
        // Kept in `self` while it is awaited: if the caller drops the future now, `Drop` still
        // learns from the reply whether there is a process to kill.
        self.state = State::Requested(self.zone.send(request, &borrowed(&fds))?);
        drop(fds);
        if let State::Requested(reply) = &mut self.state {
            let reply = reply.await;
            self.state = State::Absent;
            reply.unwrap_or(Err(TierError::Gone))?;
        }
        self.state = State::Forked;
        Ok(())
    }

    fn succeed(mut self) -> (CommandNumber, watch::Receiver<Option<CommandEnd>>) {
        self.state = State::Done;
        (CommandNumber(self.number), self.life.clone())
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Done => {}
            State::Absent => self.zone.forget_command(self.number),
            // Its watch stays until the zone reports the end, and with it the permit: a process
            // that is dying still counts.
            State::Forked => kill(self.zone, self.number),
            State::Requested(reply) => {
                let zone = self.zone.clone();
                let number = self.number;
                // Without a runtime the whole zone is ending.
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(async move {
                        match reply.await {
                            Ok(Ok(_)) => kill(&zone, number),
                            Ok(Err(_)) | Err(_) => zone.forget_command(number),
                        }
                    });
                }
            }
        }
    }
}

/// Kills a command without waiting for its end.
fn kill(zone: &ZoneHandle, command: u64) {
    // A zone that has ended took the command along.
    let _ = zone.send(ZoneRequest::SignalCommand { command, signal: SIGKILL }, &[]);
}

/// What the report of an entering process came to.
enum Reported {
    Runs {
        process_id: u32,
        terminal: Option<OwnedFd>,
    },
    Refused {
        step: String,
        errno: i32,
    },
    /// The process ended before it had entered.
    Silence,
}

/// Reads the report until the program runs or has failed to start.
async fn listen(report: UnixStream) -> std::io::Result<Reported> {
    let mut reported = Reported::Silence;
    loop {
        let word = report.async_io(Interest::READABLE, || jail::hear(&report)).await?;
        match word {
            // Not the end yet: the report closes on exec, and a refusal may come instead.
            Word::Entered { process_id, terminal } => {
                reported = Reported::Runs { process_id, terminal };
            }
            Word::Refused { step, errno } => reported = Reported::Refused { step, errno },
            Word::Nothing => return Ok(reported),
        }
    }
}

/// Converts the zone's reason for not forking.
fn not_requested(error: TierError) -> CommandStartError {
    match error {
        // The zone answers with this step if the enclosure has ended.
        TierError::Step(failure) if failure.step == "enter-enclosure" => {
            CommandStartError::SandboxDied
        }
        TierError::Gone => CommandStartError::SandboxDied,
        error => CommandStartError::Tier(error),
    }
}

fn refused_at(step: String) -> RefusedAt {
    match step {
        step if step == jail::Step::Directory.name() => RefusedAt::Directory,
        step if step == jail::Step::Exec.name() => RefusedAt::Exec,
        step => RefusedAt::Step(step),
    }
}

/// Returns why a process ended while it entered: it was killed, or the sandbox died.
async fn killed(mut life: watch::Receiver<Option<CommandEnd>>) -> CommandStartError {
    let unknown = CommandEnd { exit: CommandExit::Signal(SIGKILL), out_of_memory: false };
    let end = tokio::time::timeout(LIFE_LAG, ended(&mut life)).await.unwrap_or(unknown);
    match end.exit {
        CommandExit::SandboxDied => CommandStartError::SandboxDied,
        CommandExit::Status(_) | CommandExit::Signal(_) => CommandStartError::Ended(end),
    }
}
