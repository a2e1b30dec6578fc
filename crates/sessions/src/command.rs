//! A command of a session: the request, its process, input, output and end.

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
use crate::event_log::{EventLog, LogEvent};
use crate::kept::{HasOutput, KeptBytes};
use crate::session::Executing;

use pump::Pump;

/// A request to start a command.
#[derive(Clone, Debug)]
pub struct CommandRequest {
    /// What to run.
    pub line: CommandInvocation,
    /// Environment variables, on top of the sandbox's.
    pub environment: BTreeMap<String, String>,
    /// The directory in which it starts; `None` is the sandbox's own.
    pub directory: Option<String>,
    /// Whether clients can write to its standard input.
    pub stdin: bool,
    /// The timeout; `None` for as long as the sandbox lives.
    pub timeout: Option<Duration>,
    /// The size of its terminal; `None` for pipes.
    pub terminal: Option<TerminalSize>,
    /// A name that its owner gives it.
    pub tag: Option<String>,
}

impl CommandRequest {
    /// Returns how many bytes of memory it takes, with its line for people.
    fn bytes(&self) -> u64 {
        let line = match &self.line {
            CommandInvocation::Shell(line) => line.len(),
            CommandInvocation::Program(arguments) => {
                arguments.iter().map(|argument| size_of::<String>() + argument.len()).sum()
            }
        };
        let variables = self.environment.iter().map(|(name, value)| name.len() + value.len() + 64);
        let names = self.directory.iter().chain(&self.tag).map(String::len);
        (2 * line + variables.sum::<usize>() + names.sum::<usize>()) as u64
    }
}

/// A request that counts in the budget of its key.
pub(crate) struct CountedRequest {
    request: CommandRequest,
    kept: KeptBytes,
}

/// What a command runs.
#[derive(Clone, Debug)]
pub enum CommandInvocation {
    /// A line for the shell of the sandbox.
    Shell(String),
    /// A program and its arguments.
    Program(Vec<String>),
}

impl CommandInvocation {
    /// Returns it as one line, for people.
    pub(crate) fn display(&self) -> String {
        match self {
            Self::Shell(line) => line.clone(),
            Self::Program(arguments) => arguments.join(" "),
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// It ran longer than its timeout.
    TimedOut,
    /// It failed with this status while processes of the sandbox were killed for lack of memory.
    OutOfMemory(i32),
    /// Its sandbox ended.
    SandboxDied,
}

impl CommandOutcome {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exited(_) => "exited",
            Self::Killed(_) => "killed",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory(_) => "out_of_memory",
            Self::SandboxDied => "sandbox_died",
        }
    }

    /// Returns the exit status that a shell would show.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Exited(status) | Self::OutOfMemory(status) => status,
            Self::Killed(signal) => 128 + signal,
            Self::TimedOut => 124,
            Self::SandboxDied => 70,
        }
    }

    /// Returns the signal that killed it.
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

/// The result of a command that has ended.
#[derive(Debug)]
pub struct CommandEnded {
    /// How it ended.
    pub outcome: CommandOutcome,
    /// The head and the tail of stdout.
    pub stdout: Arc<HeadTail>,
    /// The head and the tail of stderr.
    pub stderr: Arc<HeadTail>,
    /// Whether output was left out because the budget of its key had no room for it.
    pub keeping_refused: bool,
    /// Wall-clock time.
    pub duration: Duration,
    /// Counts its output in the budget of its key; `None` if it was dropped.
    pub(crate) _kept: Option<KeptBytes>,
}

impl CommandEnded {
    /// Returns it without output, which then counts as left out.
    fn without_output(&self) -> Self {
        Self {
            outcome: self.outcome,
            stdout: self.stdout.without_content().into(),
            stderr: self.stderr.without_content().into(),
            keeping_refused: true,
            duration: self.duration,
            _kept: None,
        }
    }
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
    /// Its id, unique in its sandbox.
    pub id: CommandId,
    /// What it runs, in one line.
    pub line: String,
    /// The request.
    pub request: CommandRequest,
    /// When it was started.
    pub created_at: Timestamp,
    /// Its output.
    pub log: Arc<EventLog>,
    handle: CommandHandle,
    input: tokio::sync::Mutex<Option<CommandInput>>,
    has_terminal: bool,
    phase: watch::Sender<CommandPhase>,
    /// Counts the request in the budget of its key.
    _kept: KeptBytes,
}

impl Command {
    /// Takes over a process that has just been started.
    pub(crate) fn start(
        executing: Executing,
        id: CommandId,
        request: CountedRequest,
        mut process: silica_engine::CommandProcess,
        output_bytes: u64,
        ticket: Ticket,
    ) -> Arc<Self> {
        let CountedRequest { request, kept } = request;
        let deadline = request.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let command = Arc::new(Self {
            id,
            line: request.line.display(),
            created_at: Timestamp::now(),
            log: Arc::default(),
            handle: process.handle().clone(),
            input: tokio::sync::Mutex::new(process.take_input()),
            has_terminal: request.terminal.is_some(),
            request,
            phase: watch::Sender::new(CommandPhase::Running),
            _kept: kept,
        });
        command.log.push(LogEvent::Start);
        let pump = Pump {
            session: Arc::clone(executing.session()),
            command: Arc::clone(&command),
            kept: executing.session().begin_keeping(),
            log_bytes: 0,
            keeping_refused: false,
            stdout: HeadTail::new(output_bytes),
            stderr: HeadTail::new(output_bytes),
            started: Instant::now(),
            deadline,
            timed_out: false,
            _executing: executing,
        };
        tokio::spawn(pump.run(process, ticket));
        command
    }

    /// Returns the id of its process, as seen in the sandbox.
    pub fn process_id(&self) -> u32 {
        self.handle.process_id()
    }

    /// Returns how far it has come.
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
                // The only error is a dropped sender, and the sender is a field of `self`.
                std::future::pending::<()>().await;
            }
        }
    }

    fn check_running(&self) -> Result<(), SessionError> {
        match *self.phase.borrow() {
            CommandPhase::Running => Ok(()),
            CommandPhase::Done(_) => Err(SessionError::CommandEnded(self.id)),
        }
    }

    /// Writes to its standard input; waits while its pipe is full.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), SessionError> {
        self.check_running()?;
        let mut input = self.input.lock().await;
        let closed =
            || SessionError::Bad(format!("the standard input of command {} is closed", self.id));
        let written = input.as_mut().ok_or_else(closed)?.write_all(bytes).await;
        // A failed write means that it has ended or has closed its standard input.
        written.map_err(|_| SessionError::CommandEnded(self.id))
    }

    /// Closes its standard input. A terminal receives the character for the end of input.
    pub async fn close_input(&self) -> Result<(), SessionError> {
        const END_OF_INPUT: &[u8] = &[4];
        if self.has_terminal {
            return self.write(END_OF_INPUT).await;
        }
        self.check_running()?;
        drop(self.input.lock().await.take());
        Ok(())
    }

    /// Sends a signal to it and to its process group.
    pub async fn signal(&self, signal: i32) -> Result<(), SessionError> {
        self.check_running()?;
        if !(1..=64).contains(&signal) {
            return Err(SessionError::Bad(format!("signal must be from 1 to 64, not {signal}")));
        }
        Ok(self.handle.signal(signal).await?)
    }

    /// Changes the size of its terminal.
    pub fn resize(&self, size: TerminalSize) -> Result<(), SessionError> {
        self.check_running()?;
        if !self.has_terminal {
            return Err(SessionError::Bad(format!("command {} has no terminal", self.id)));
        }
        let failed = |error| SessionError::Bad(format!("cannot resize the terminal: {error}"));
        self.handle.resize(size).map_err(failed)
    }
}

impl HasOutput for Command {
    fn drop_output(&self) -> bool {
        if self.log.has_readers() {
            return false;
        }
        let is_dropped = self.phase.send_if_modified(|phase| match phase {
            CommandPhase::Done(end) if Arc::strong_count(end) == 1 => {
                *end = Arc::new(end.without_output());
                true
            }
            CommandPhase::Done(_) | CommandPhase::Running => false,
        });
        if is_dropped {
            self.log.drop_events();
        }
        is_dropped
    }
}
