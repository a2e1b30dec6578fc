//! Commands: programs run in a sandbox beside its kernels, with pipes or on a terminal.
//!
//! Owns the specification, the handle and the end of a command; `starting` starts them, `streams`
//! are the host's ends. Everything a command writes is hostile and passed on as bytes. The host
//! holds no more of it than one chunk: a command whose output is not read blocks.
//!
//! Tests: `tests/it/engine/commands.rs`, `tests/it/engine/terminals.rs`.

mod starting;
mod streams;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use silica_domain::TerminalSize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::tier::{CommandNumber, Enclosure, TierError};

pub(crate) use starting::{CommandDefaults, Commands};
pub use streams::CommandInput;
use streams::{Output, Terminal};

/// The most commands of one sandbox at once: running, or ended with streams that are still open.
pub const COMMANDS_MAX: usize = 64;

/// How long a command may take from being asked for to its first instruction. Others in the sandbox
/// can slow it down, or stop it.
pub(crate) const START_PATIENCE: Duration = Duration::from_secs(30);

/// The signal that cannot be ignored.
const SIGKILL: i32 = 9;

/// What a command reads when it has no terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// What is written to its [`CommandInput`].
    Piped,
    /// Nothing.
    Closed,
}

/// What to run, where, and with which streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program and its arguments; a name without a slash is looked for along `PATH`.
    pub arguments: Vec<String>,
    /// Variables on top of the template's.
    pub environment: BTreeMap<String, String>,
    /// Where to start, as seen inside; relative to `/workspace`.
    pub directory: String,
    /// What it reads, unless it has a terminal.
    pub stdin: Stdin,
    /// Gives it a terminal of this size instead of pipes.
    pub terminal: Option<TerminalSize>,
    /// For tests: the step of starting that fails on purpose; 0 for none.
    pub fail_at: u32,
}

impl CommandSpec {
    /// Returns the specification of a program in `/workspace`, with nothing to read and no
    /// terminal.
    pub fn program<Text: Into<String>>(arguments: impl IntoIterator<Item = Text>) -> Self {
        Self {
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: BTreeMap::new(),
            directory: "/workspace".to_owned(),
            stdin: Stdin::Closed,
            terminal: None,
            fail_at: 0,
        }
    }

    /// Fails on what no system could run.
    fn check(&self) -> Result<(), CommandError> {
        let invalid = |what: &str| Err(CommandError::Invalid(what.to_owned()));
        let texts = self.arguments.iter().chain(self.environment.values());
        if self.arguments.is_empty() {
            return invalid("there is no program");
        }
        // execve(2) and chdir(2) take C strings, which end at the first NUL.
        if texts.chain([&self.directory]).any(|text| text.contains('\0')) {
            return invalid("a NUL character cannot be passed to a program");
        }
        // The environment is made of `name=value`, so a name with `=` would set another variable.
        let named = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if !self.environment.keys().all(named) {
            return invalid("a variable has a name that cannot be one");
        }
        Ok(())
    }
}

/// Why a command could not be started. Nothing of it has run then.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The specification cannot be passed to execve(2).
    #[error("the command makes no sense: {0}")]
    Invalid(String),
    /// Arguments and variables are too long.
    #[error("the arguments and variables of the command are too long")]
    TooLarge,
    /// Too many at once.
    #[error("the sandbox has {COMMANDS_MAX} commands already")]
    TooMany,
    /// The sandbox has ended.
    #[error("the sandbox has ended")]
    SandboxDied,
    /// There is no such program.
    #[error("there is no program {0}")]
    NotFound(String),
    /// There is, but it cannot be run.
    #[error("{program} cannot be run: {}", std::io::Error::from_raw_os_error(*.errno))]
    NotExecutable {
        /// The program as it was asked for.
        program: String,
        errno: i32,
    },
    /// The command cannot start in its directory.
    #[error("cannot start in {directory}: {}", std::io::Error::from_raw_os_error(*.errno))]
    Directory {
        /// The directory as it was asked for.
        directory: String,
        errno: i32,
    },
    /// A step of entering failed.
    #[error("entering the sandbox failed at step {step}: {}", std::io::Error::from_raw_os_error(*.errno))]
    Refused { step: String, errno: i32 },
    /// It ended before it was the program.
    #[error("the command was killed before it started")]
    Killed(CommandEnd),
    /// It did not start in time.
    #[error("the command did not start within {} seconds", START_PATIENCE.as_secs())]
    Slow,
    /// Pipes or sockets could not be made.
    #[error("cannot make the streams of a command")]
    Streams(#[source] std::io::Error),
    /// The sandbox's tier failed.
    #[error("cannot start a command")]
    Tier(#[source] TierError),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandExit {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// With the whole sandbox.
    SandboxDied,
}

/// A command's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    pub exit: CommandExit,
    /// Whether it failed and the kernel killed a process of the sandbox for lack of memory
    /// meanwhile.
    pub out_of_memory: bool,
}

/// Output of a command, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEvent {
    /// Bytes of stdout, or of the terminal.
    Stdout(Vec<u8>),
    /// Bytes of stderr.
    Stderr(Vec<u8>),
    /// It has ended. What it wrote has come before; what its children write may come after.
    Ended(CommandEnd),
}

/// Keeps a place among the commands of a sandbox.
pub(crate) type Permit = Arc<OwnedSemaphorePermit>;

/// A running command. Dropping it closes its input and leaves it running: what it still writes is
/// read and forgotten. It ends with its sandbox at the latest.
#[derive(Debug)]
pub struct CommandProcess {
    handle: CommandHandle,
    input: Option<CommandInput>,
    /// Taken only when this is dropped.
    output: Option<Output>,
}

/// Signals, resizes and awaits a running command; its streams may be held elsewhere.
#[derive(Clone, Debug)]
pub struct CommandHandle {
    number: CommandNumber,
    process_id: u32,
    enclosure: Arc<dyn Enclosure>,
    life: watch::Receiver<Option<CommandEnd>>,
    terminal: Option<Arc<Terminal>>,
}

impl CommandHandle {
    /// Returns the number of its process, as seen inside.
    pub fn process_id(&self) -> u32 {
        self.process_id
    }

    /// Sends a signal to it and to all processes of its group. After its end this does nothing.
    pub async fn signal(&self, signal: i32) -> Result<(), TierError> {
        match self.enclosure.signal_command(self.number, signal).await {
            // The end of the tier has ended the command.
            Ok(()) | Err(TierError::Gone) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Kills the command without waiting for its end.
    pub(crate) fn kill_in_background(self) {
        // Without a runtime the whole engine is ending.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { drop(self.signal(SIGKILL).await) });
        }
    }

    /// Changes the size of its terminal, which it learns by SIGWINCH; nothing without one.
    pub fn resize(&self, size: TerminalSize) -> std::io::Result<()> {
        self.terminal.as_ref().map_or(Ok(()), |terminal| terminal.resize(size))
    }

    /// Waits for its end; its streams may be held elsewhere.
    pub async fn wait(&self) -> CommandEnd {
        ended(&mut self.life.clone()).await
    }
}

impl CommandProcess {
    /// Returns the handle, which can be cloned and used anywhere.
    pub fn handle(&self) -> &CommandHandle {
        &self.handle
    }

    /// Takes the input of the command; once. Dropping it is the end of what the command can read,
    /// unless it has a terminal.
    pub fn take_input(&mut self) -> Option<CommandInput> {
        self.input.take()
    }

    /// Waits for what comes next; `None` once it has ended and all its streams are closed. May be
    /// given up and called again.
    pub async fn next(&mut self) -> Option<CommandEvent> {
        self.output.as_mut()?.next(&mut self.handle.life).await
    }
}

impl Drop for CommandProcess {
    fn drop(&mut self) {
        // Closed pipes and a hung up terminal would kill what goes on writing.
        let output = self.output.take().filter(|output| !output.is_closed());
        if let (Some(mut output), Ok(runtime)) = (output, tokio::runtime::Handle::try_current()) {
            let mut life = self.handle.life.clone();
            runtime.spawn(async move { while output.next(&mut life).await.is_some() {} });
        }
    }
}

/// Waits for a command's end. The watch closes without a value when the sandbox is ended on
/// request.
pub(crate) async fn ended(life: &mut watch::Receiver<Option<CommandEnd>>) -> CommandEnd {
    match life.wait_for(Option::is_some).await.as_deref() {
        Ok(&Some(end)) => end,
        Ok(None) | Err(_) => DIED,
    }
}

/// The end of a command whose sandbox ended, for a reason that is not known.
const DIED: CommandEnd = CommandEnd { exit: CommandExit::SandboxDied, out_of_memory: false };
