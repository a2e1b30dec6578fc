//! The seam between sandboxes and what isolates them.
//!
//! A [`TierDriver`] is one running tier: it makes enclosures. An [`Enclosure`] is one sandbox as
//! its tier sees it: a place for interpreters and commands, with limits, files and an end.
//! Everything above this file speaks to these two traits and to the descriptors it hands over: a
//! control socket, stdout and stderr for an interpreter, pipes for a command. Each tier lives in a
//! folder below, and only that folder may import what the tier is made of (`cargo xtask tidy`
//! checks it).
//!
//! Rules that keep the tiers one API:
//! - A tier reports what it enforces in its [`Containment`], from what it has probed or read back.
//! - [`KernelStart::Warm`] means ready-made by the tier's own means; `Fresh` shares nothing.
//! - What a guest wrote to stdout before a frame on its control socket is readable before that
//!   frame.
//! - `kill` returns when nothing in the enclosure runs any more, `end` when nothing of it is left.

pub(crate) mod jail;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use silica_domain::{Containment, Exit, Limits, TerminalSize, Usage};
use silica_templates::Template;
use tokio::sync::watch;

use crate::command::{CommandEnd, Permit};
use crate::guest;
use crate::image::Image;
use crate::inputs::{Input, InputError};
use crate::network::{GuestPrefix, GuestSocket};

/// Which tier an engine runs, and with what.
#[derive(Clone, Debug)]
pub enum TierOptions {
    /// See [`silica_domain::Tier::Jail`].
    Jail(jail::JailOptions),
}

/// Why a tier could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum TierError {
    /// A named step of setting up a sandbox failed.
    #[error("the sandbox could not be set up at step {}", .0.step)]
    Step(#[source] StepFailure),
    /// The tier's process has ended, and every sandbox with it.
    #[error("the sandbox supervisor has ended")]
    Gone,
    /// The request is larger than the tier accepts.
    #[error("the request to the sandbox supervisor is too long")]
    TooLong,
    /// The tier's process cannot be started, or breaks its protocol.
    #[error("the sandbox supervisor failed")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A file or directory could not be made available to the sandbox.
    #[error("cannot mount {0}")]
    Mount(std::path::PathBuf, #[source] io::Error),
    /// An input cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
}

/// A step that failed, by its stable name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {message}")]
pub struct StepFailure {
    pub step: String,
    pub message: String,
    /// The error number, if there is one.
    pub errno: Option<i32>,
}

/// What a sandbox gets of the processors while others want them too, and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuShare {
    /// Its weight among the sandboxes of its engine, from 1 to [`CpuShare::WEIGHT_MAX`].
    pub weight: u32,
    /// Thousandths of one processor, at least [`CpuShare::MILLIS_MIN`].
    pub cpu_millis: u32,
}

impl CpuShare {
    /// The largest weight.
    pub const WEIGHT_MAX: u32 = 800;
    /// The weight of a new sandbox.
    pub const WEIGHT_NEW: u32 = 100;
    /// The least limit.
    pub const MILLIS_MIN: u32 = 10;
}

/// The number of an interpreter, unique within its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KernelNumber(pub(crate) u64);

/// The number of a command, unique within its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CommandNumber(pub(crate) u64);

/// The state of an interpreter or of a whole enclosure, as its tier last reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    Ended(Exit),
    /// The enclosure ended without having been asked to.
    SandboxDied {
        out_of_memory: bool,
    },
}

/// A program to start inside, with its whole environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuestProgram {
    /// Path and arguments; the first is the path.
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

/// How an interpreter is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelStart {
    /// From what the tier keeps warm of the template.
    Warm,
    /// As a program of its own.
    Fresh(Arc<GuestProgram>),
    /// From what the tier keeps warm of the template; it becomes the image before its first
    /// instruction of a user.
    Image(ImageHandle),
}

/// An image that an interpreter is started from. Two are equal if they are one.
#[derive(Clone, Debug)]
pub(crate) struct ImageHandle(pub(crate) Arc<Image>);

impl PartialEq for ImageHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ImageHandle {}

/// What an enclosure is made from.
#[derive(Clone, Debug)]
pub(crate) struct EnclosureSpec {
    /// The template, by name; it must have been added.
    pub(crate) template: String,
    pub(crate) limits: Limits,
    pub(crate) inputs: Vec<Input>,
    /// For tests: the step that fails on purpose; 0 for none.
    pub(crate) fail_at: u32,
}

/// An enclosure that was asked for. It accepts interpreters before it is made.
pub(crate) struct NewEnclosure {
    pub(crate) enclosure: Arc<dyn Enclosure>,
    /// Completes when the enclosure is made; brings its writable files.
    pub(crate) made: BoxFuture<'static, Result<WritableTree, TierError>>,
}

/// The writable file system of an enclosure: a directory with `workspace`, `home` and `tmp`.
#[derive(Debug)]
pub(crate) struct WritableTree {
    pub(crate) directory: OwnedFd,
    /// How many inodes are in use while the guest has made nothing.
    pub(crate) inodes_when_empty: u64,
}

/// An interpreter that was asked for.
pub(crate) struct StartedKernel {
    pub(crate) number: KernelNumber,
    pub(crate) life: watch::Receiver<Life>,
    /// The tier's report of the start, needed only if the interpreter never sends its hello.
    pub(crate) entered: Entered,
}

/// Completes when a tier has started an interpreter or has failed to.
pub(crate) type Entered = Pin<Box<dyn Future<Output = Result<(), TierError>> + Send + Sync>>;

/// What a command reads from and writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandStreams {
    /// Pipes for stdout and stderr; nothing to read.
    Output,
    /// Pipes for stdout, stderr and stdin.
    OutputAndInput,
    /// A terminal, made by the tier.
    Terminal(TerminalSize),
}

/// A command to start.
pub(crate) struct CommandStart {
    pub(crate) program: GuestProgram,
    /// Where it starts, as seen inside.
    pub(crate) directory: String,
    pub(crate) streams: CommandStreams,
    /// The guest's ends of the pipes: stdout, stderr, stdin, as far as `streams` has them.
    pub(crate) ends: Vec<OwnedFd>,
    /// Held by the tier until the command has ended.
    pub(crate) permit: Permit,
    /// For tests: the step that fails on purpose; 0 for none.
    pub(crate) fail_at: u32,
}

/// A command whose program runs.
pub(crate) struct StartedCommand {
    pub(crate) number: CommandNumber,
    /// Its process id, as seen inside.
    pub(crate) process_id: u32,
    /// The host's side of its terminal, if it has one.
    pub(crate) terminal: Option<OwnedFd>,
    pub(crate) life: watch::Receiver<Option<CommandEnd>>,
}

/// Where the start of a command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RefusedAt {
    /// Changing to its directory.
    Directory,
    /// Executing the program.
    Exec,
    /// Another step, by its name.
    Step(String),
}

/// Why a command did not start. None of its instructions has run.
#[derive(Debug)]
pub(crate) enum CommandStartError {
    Refused { at: RefusedAt, errno: i32 },
    Ended(CommandEnd),
    Slow,
    Streams(io::Error),
    SandboxDied,
    Tier(TierError),
}

/// One running tier.
pub(crate) trait TierDriver: fmt::Debug + Send + Sync {
    /// Returns what is enforced for every sandbox of this tier.
    fn containment(&self) -> &Containment;

    /// Returns the process on the host whose end takes every sandbox along.
    fn process_id(&self) -> u32;

    /// Returns files that this tier needs beside the guest's own code, by name.
    fn guest_files(&self) -> &'static [(&'static str, &'static [u8])];

    /// Makes a template known. Its files and `guest` must outlive the driver.
    fn add_template<'a>(
        &'a self,
        template: &'a Template,
        guest: &'a guest::Layer,
    ) -> BoxFuture<'a, Result<(), TierError>>;

    /// Keeps an interpreter of a template warm from now on; `program` warms it up.
    fn keep_warm(
        &self,
        template: &str,
        program: GuestProgram,
    ) -> BoxFuture<'_, Result<(), TierError>>;

    /// Waits until a template's warm interpreter is ready, or has failed for good.
    fn warmed<'a>(&'a self, template: &'a str) -> BoxFuture<'a, Result<(), String>>;

    /// Asks for an enclosure and returns at once.
    fn create(&self, spec: &EnclosureSpec) -> Result<NewEnclosure, TierError>;

    /// Returns whether the tier's process has ended.
    fn is_gone(&self) -> bool;

    /// Waits until the tier's process has ended.
    fn gone(&self) -> BoxFuture<'_, ()>;

    /// Ends every sandbox; returns when nothing is left.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// One sandbox as its tier sees it.
pub(crate) trait Enclosure: fmt::Debug + Send + Sync {
    /// Asks for an interpreter and returns at once. `ends` are its control socket, stdout and
    /// stderr.
    fn start_kernel(
        &self,
        start: &KernelStart,
        ends: [OwnedFd; 3],
        fail_at: u32,
    ) -> Result<StartedKernel, TierError>;

    /// Sends a signal to an interpreter; does nothing after its end.
    fn signal_kernel(&self, kernel: KernelNumber, signal: i32) -> BoxFuture<'_, ()>;

    /// Starts a command; completes once its program runs. Dropping the future kills the command.
    fn start_command(
        &self,
        start: CommandStart,
    ) -> BoxFuture<'_, Result<StartedCommand, CommandStartError>>;

    /// Sends a signal to a command and to all processes of its group.
    fn signal_command(
        &self,
        command: CommandNumber,
        signal: i32,
    ) -> BoxFuture<'_, Result<(), TierError>>;

    /// Opens sockets in its network and makes the addresses of `prefixes` local there. The
    /// addresses of [`crate::network::SYNTHETIC_ADDRESSES`] are local from the first call on. Fails
    /// after its end.
    fn open_sockets(
        &self,
        sockets: &[GuestSocket],
        prefixes: &[GuestPrefix],
    ) -> BoxFuture<'_, Result<Vec<OwnedFd>, TierError>>;

    /// Returns what has been used so far. After the end: the last reading.
    fn usage(&self) -> Usage;

    /// Returns the processor time used so far; `None` where it is not measured.
    fn cpu_time(&self) -> Option<Duration>;

    /// Changes what it gets of the processors, some time soon. Does nothing after its end, or if
    /// the host offers no means.
    fn set_share(&self, share: CpuShare);

    /// Returns the enclosure's own state; closed once the enclosure is being ended on request.
    fn life(&self) -> watch::Receiver<Life>;

    /// Kills everything inside.
    fn kill(&self) -> BoxFuture<'_, Result<(), TierError>>;

    /// Kills everything inside and removes the enclosure.
    fn end(&self) -> BoxFuture<'_, Result<(), TierError>>;

    /// Ends the enclosure like `end`, without waiting for it.
    fn abandon(&self);
}
