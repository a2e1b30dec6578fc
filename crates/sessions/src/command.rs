//! A command of a session: a process, its log, its input, its end.

mod pump;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use silica_domain::CommandId;
use silica_engine::{CommandEnd, CommandExit, CommandHandle, CommandInput, HeadTail, TerminalSize};
use silica_store::Timestamp;
use silica_store::audit::Ticket;
use tokio::sync::watch;

use crate::error::SessionError;
use crate::event_log::{Event, EventLog};
use crate::session::Session;

use pump::Pump;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct CommandRequest {
    /// The program.
    pub what: What,
    /// Variables on top of the sandbox's.
    pub environment: BTreeMap<String, String>,
    /// Where it starts.
    pub directory: Option<String>,
    /// Whether its input stays open.
    pub stdin: bool,
    /// For how long at most; as long as the sandbox if nothing is said.
    pub timeout: Option<Duration>,
    /// With a terminal of this size.
    pub terminal: Option<TerminalSize>,
    /// A name its owner gives it.
    pub tag: Option<String>,
}

/// What a command is.
#[derive(Clone, Debug)]
pub enum What {
    /// A line for the sandbox's shell.
    Line(String),
    /// A program and its arguments.
    Program(Vec<String>),
}

impl What {
    /// What is shown for it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Line(line) => line.clone(),
            Self::Program(arguments) => arguments.join(" "),
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It ran out of time.
    TimedOut,
    /// It failed while processes were killed for lack of memory.
    OutOfMemory(i32),
    /// With the whole sandbox.
    SandboxDied,
}

impl CommandOutcome {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exited(_) => "exited",
            Self::Killed(_) => "killed",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory(_) => "out_of_memory",
            Self::SandboxDied => "sandbox_died",
        }
    }

    /// The exit status a shell would show for it.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Exited(status) | Self::OutOfMemory(status) => status,
            Self::Killed(signal) => 128 + signal,
            Self::TimedOut => 124,
            Self::SandboxDied => 70,
        }
    }

    /// The signal that ended it.
    pub fn signal(self) -> Option<i32> {
        match self {
            Self::Killed(signal) => Some(signal),
            Self::Exited(_) | Self::TimedOut | Self::OutOfMemory(_) | Self::SandboxDied => None,
        }
    }

    fn of(end: CommandEnd, timed_out: bool) -> Self {
        match end.exit {
            CommandExit::SandboxDied => Self::SandboxDied,
            _ if timed_out => Self::TimedOut,
            CommandExit::Status(status) if end.out_of_memory => Self::OutOfMemory(status),
            CommandExit::Signal(signal) if end.out_of_memory => Self::OutOfMemory(128 + signal),
            CommandExit::Status(status) => Self::Exited(status),
            CommandExit::Signal(signal) => Self::Killed(signal),
        }
    }
}

/// A command's end.
#[derive(Debug)]
pub struct CommandEnded {
    /// How it ended.
    pub outcome: CommandOutcome,
    /// What was kept of stdout.
    pub stdout: HeadTail,
    /// What was kept of stderr.
    pub stderr: HeadTail,
    /// Time on the clock.
    pub duration: Duration,
}

/// How far a command has come.
#[derive(Clone, Debug)]
pub enum CommandPhase {
    /// It runs.
    Running,
    /// It has ended.
    Done(Arc<CommandEnded>),
}

/// A command.
#[derive(Debug)]
pub struct Command {
    /// `p1`, `p2` …, unique in its sandbox.
    pub id: CommandId,
    /// What was asked for, in one line.
    pub shown: String,
    /// What was asked for.
    pub request: CommandRequest,
    /// When it was started.
    pub created_at: Timestamp,
    /// What it says.
    pub log: Arc<EventLog>,
    handle: CommandHandle,
    input: tokio::sync::Mutex<Option<CommandInput>>,
    has_terminal: bool,
    phase: watch::Sender<CommandPhase>,
}

impl Command {
    /// Takes over a command that has just been started.
    pub(crate) fn start(
        session: &Arc<Session>,
        id: CommandId,
        request: CommandRequest,
        mut process: silica_engine::Command,
        output_bytes: u64,
        ticket: Ticket,
    ) -> Arc<Self> {
        let deadline = request.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let command = Arc::new(Self {
            id,
            shown: request.what.shown(),
            created_at: Timestamp::now(),
            log: Arc::default(),
            handle: process.handle().clone(),
            input: tokio::sync::Mutex::new(process.take_input()),
            has_terminal: request.terminal.is_some(),
            request,
            phase: watch::Sender::new(CommandPhase::Running),
        });
        command.log.push(Event::Start);
        let pump = Pump {
            session: Arc::clone(session),
            command: Arc::clone(&command),
            stdout: HeadTail::new(output_bytes),
            stderr: HeadTail::new(output_bytes),
            started: Instant::now(),
            deadline,
            timed_out: false,
        };
        tokio::spawn(pump.run(process, ticket));
        command
    }

    /// Its process, as seen inside.
    pub fn process_id(&self) -> u32 {
        self.handle.process_id()
    }

    /// How far it has come.
    pub fn phase(&self) -> CommandPhase {
        self.phase.borrow().clone()
    }

    /// Waits for its end.
    pub async fn done(&self) -> Arc<CommandEnded> {
        let mut phase = self.phase.subscribe();
        loop {
            if let CommandPhase::Done(end) = &*phase.borrow_and_update() {
                return Arc::clone(end);
            }
            if phase.changed().await.is_err() {
                // The sender lives in this very command.
                std::future::pending::<()>().await;
            }
        }
    }

    fn still_runs(&self) -> Result<(), SessionError> {
        match *self.phase.borrow() {
            CommandPhase::Running => Ok(()),
            CommandPhase::Done(_) => Err(SessionError::CommandEnded(self.id)),
        }
    }

    /// Writes to its input, at its pace.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), SessionError> {
        self.still_runs()?;
        let mut input = self.input.lock().await;
        let closed = || SessionError::Bad(format!("the input of command {} is closed", self.id));
        let written = input.as_mut().ok_or_else(closed)?.write_all(bytes).await;
        // It has ended, or has closed its input and will read nothing more.
        written.map_err(|_| SessionError::CommandEnded(self.id))
    }

    /// Closes its input. A terminal gets the character that means the end of input.
    pub async fn close_input(&self) -> Result<(), SessionError> {
        const END_OF_INPUT: &[u8] = &[4];
        if self.has_terminal {
            return self.write(END_OF_INPUT).await;
        }
        self.still_runs()?;
        drop(self.input.lock().await.take());
        Ok(())
    }

    /// Sends a signal to it and to its process group.
    pub async fn signal(&self, signal: i32) -> Result<(), SessionError> {
        self.still_runs()?;
        if !(1..=64).contains(&signal) {
            return Err(SessionError::Bad(format!("there is no signal {signal}")));
        }
        Ok(self.handle.signal(signal).await?)
    }

    /// Changes the size of its terminal.
    pub fn resize(&self, size: TerminalSize) -> Result<(), SessionError> {
        self.still_runs()?;
        if !self.has_terminal {
            return Err(SessionError::Bad(format!("command {} has no terminal", self.id)));
        }
        let failed = |error| SessionError::Bad(format!("the terminal cannot be resized: {error}"));
        self.handle.resize(size).map_err(failed)
    }
}
