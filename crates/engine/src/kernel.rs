//! A live interpreter in a sandbox: starting it, setting it up, running cells in it, ending it.
//! Tests: `tests/it/engine/work.rs`, `tests/it/engine/misbehaving.rs`.

mod cell;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use silica_domain::{Bundle, CellError, CommMessage, LeftBehind, LimitHit, Limits, Outcome, Usage};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

use crate::control::{self, FromGuestEnd, ToGuestEnd};
use crate::output::HeadTail;
use crate::tier::{Enclosure, Entered, KernelNumber, KernelStart, Life, StartedKernel, TierError};
use crate::wire::{self, CheckedStatus, FrameReader, FromGuest, ToGuest, WireError};

/// The longest code of one cell.
pub const CODE_BYTES_MAX: usize = 1024 * 1024;

/// How long an interpreter may take from the request to its hello.
// Code in the sandbox can stop a process that enters it (docs/design/hidden-entry.md). This bound
// turns that into an error.
const HELLO_PATIENCE: Duration = Duration::from_secs(30);

/// How long the tier may take to say why a start failed.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);

/// How long a frame to the guest may take to be read by it.
// Code can stop reading the control socket. Without a bound a cell would wait for it for ever.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// How long an interpreter may take to complete a name before it is interrupted.
const COMPLETE_PATIENCE: Duration = Duration::from_secs(1);

/// How long an interpreter may take to look a name up: it may have to load IPython first.
const INSPECT_PATIENCE: Duration = Duration::from_secs(5);

/// The longest text about a name.
const INSPECTION_BYTES_MAX: u64 = 256 * 1024;

/// The signals the engine sends.
const INT: i32 = 2;
const KILL: i32 = 9;

/// How much of what an interpreter wrote before it failed to start is reported.
const LAST_WORDS_BYTES_MAX: usize = 4096;

/// Frame bodies before any cell has run carry nothing.
// Whatever claims more before the first cell is no hello, and is refused by its length.
const IDLE_BODY_BYTES_MAX: u64 = 0;

/// A request about a running cell, from outside the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Raise `KeyboardInterrupt` in the code.
    Interrupt,
    /// End the interpreter.
    Kill,
    /// Give the code this much more wall-clock time.
    Extend(Duration),
    /// Give the code a line that it has asked for.
    Input(String),
}

/// Receives the output of a cell while the cell runs.
pub trait Watcher: Send {
    /// Takes bytes of stdout.
    fn stdout(&mut self, bytes: &[u8]);
    /// Takes bytes of stderr.
    fn stderr(&mut self, bytes: &[u8]);
    /// Takes a result, in order with the output.
    fn result(&mut self, bundle: &Arc<Bundle>);
    /// Takes the exception that ends the cell.
    fn error(&mut self, _: &CellError) {}
    /// Takes a question of the code. [`Control::Input`] answers it.
    fn input(&mut self, _prompt: String, _is_password: bool) {}
    /// Takes a request to remove what was shown; with `wait`, once something else is shown.
    fn clear(&mut self, _wait: bool) {}
    /// Takes a message of a comm.
    fn comm(&mut self, _: CommMessage) {}
    /// Returns whether the report may keep so many bytes more of output or results.
    fn may_keep(&mut self, _: u64) -> bool {
        true
    }
    /// Returns whether every byte of output is wanted, or only what the report keeps.
    fn takes_everything(&self) -> bool {
        false
    }
    /// Returns whether more output can be taken now. While it cannot, the pipes are not read, and
    /// code that prints waits.
    fn has_room(&self) -> bool {
        true
    }
    /// Completes once there is room.
    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Discards all output.
#[derive(Debug)]
pub struct Unwatched;

impl Watcher for Unwatched {
    fn stdout(&mut self, _: &[u8]) {}
    fn stderr(&mut self, _: &[u8]) {}
    fn result(&mut self, _: &Arc<Bundle>) {}
}

/// How a cell ended, and what it printed, showed and used.
#[derive(Debug)]
pub struct CellReport {
    pub outcome: Outcome,
    /// The exception, if it raised one.
    pub error: Option<CellError>,
    /// What was kept of stdout.
    pub stdout: Arc<HeadTail>,
    /// What was kept of stderr.
    pub stderr: Arc<HeadTail>,
    /// The results, in order.
    pub results: Vec<Arc<Bundle>>,
    /// How many results were left out, for their number or size.
    pub results_left_out: u64,
    /// Whether the watcher refused to have more kept.
    pub keeping_refused: bool,
    /// Wall-clock time.
    pub duration: Duration,
    /// Processor time of this cell, where it is measured.
    pub cpu: Option<Duration>,
    /// The sandbox's peak of memory so far, where it is measured.
    pub memory_peak_bytes: Option<u64>,
    /// Limits the code ran into.
    pub limits_hit: Vec<LimitHit>,
    /// Whether the interpreter, with its variables, is still there.
    pub kernel_lives: bool,
}

impl CellReport {
    /// Returns the report of a cell that never began.
    pub fn not_run(outcome: Outcome) -> Self {
        Self {
            outcome,
            error: None,
            stdout: HeadTail::new(0).into(),
            stderr: HeadTail::new(0).into(),
            results: Vec::new(),
            results_left_out: 0,
            keeping_refused: false,
            duration: Duration::ZERO,
            cpu: None,
            memory_peak_bytes: None,
            limits_hit: Vec::new(),
            kernel_lives: !matches!(outcome, Outcome::Disconnected | Outcome::SandboxDied),
        }
    }

    /// Returns it without output and results, which then count as left out.
    #[must_use]
    pub fn without_output(&self) -> Self {
        Self {
            outcome: self.outcome,
            error: self.error.as_ref().map(CellError::without_text),
            stdout: self.stdout.without_content().into(),
            stderr: self.stderr.without_content().into(),
            results: Vec::new(),
            results_left_out: self.results_left_out + self.results.len() as u64,
            keeping_refused: true,
            duration: self.duration,
            cpu: self.cpu,
            memory_peak_bytes: self.memory_peak_bytes,
            limits_hit: self.limits_hit.clone(),
            kernel_lives: self.kernel_lives,
        }
    }
}

/// Why a kernel could not be started or a cell not be run.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Pipes or sockets could not be made.
    #[error("cannot make the streams of an interpreter")]
    Streams(#[source] std::io::Error),
    /// The sandbox's tier could not start it.
    #[error("cannot start an interpreter")]
    Enter(#[source] TierError),
    /// Entering was refused before any code ran.
    #[error("entering the sandbox failed at step {step}: {}", std::io::Error::from_raw_os_error(*.errno))]
    Refused { step: String, errno: i32 },
    /// It ended or spoke nonsense before it was ready; the text is what it wrote to stderr.
    #[error("the interpreter did not start: {0}")]
    NotReady(String),
    /// The code is too long.
    #[error("the code is {0} bytes long; at most {CODE_BYTES_MAX} are run")]
    CodeTooLong(usize),
    /// An earlier cell ended it.
    #[error("the interpreter has ended")]
    Ended,
}

/// What an interpreter is set up with.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Variables on top of the template's.
    pub environment: BTreeMap<String, String>,
    /// `sys.argv`.
    pub arguments: Vec<String>,
    /// Where it works, if not in /workspace.
    pub directory: Option<String>,
}

/// What one cell has of its own, beyond its code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellSetup {
    /// Variables for this cell only, on top of the interpreter's.
    pub environment: BTreeMap<String, String>,
    /// The name of the file that the code comes from, for tracebacks; `None` for a number.
    pub filename: Option<String>,
    /// `sys.argv` from this cell on; `None` leaves it as it is.
    pub arguments: Option<Vec<String>>,
    /// Whether `input` asks the watcher. Otherwise it finds the end of standard input.
    pub input: bool,
    /// A message of a comm that is delivered instead of code.
    pub comm: Option<Arc<CommMessage>>,
}

/// Whether code can be run, for an editor that reads it line by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// It can.
    Complete,
    /// More lines have to follow; the next begins with this white space.
    Incomplete { indent: String },
    /// No line can make it valid.
    Invalid,
}

/// Names that can follow the code before a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// Where the completed word starts, in characters of the code.
    pub start: usize,
    /// What it may be.
    pub matches: Vec<String>,
}

/// A live interpreter. Dropping it does not end it; its sandbox's end does.
pub struct Kernel {
    number: KernelNumber,
    enclosure: Arc<dyn Enclosure>,
    frames: FrameReader<FromGuestEnd>,
    to_guest: ToGuestEnd,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    life: watch::Receiver<Life>,
    next_cell: u64,
    greeted: bool,
    /// What was missing when it woke from an image.
    left_behind: Vec<LeftBehind>,
    alive: bool,
    /// What the next cell has of its own.
    next_cell_setup: CellSetup,
    /// The tier's report of the start, awaited only if the interpreter never sends its hello.
    entered: Option<Entered>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Kernel").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The host's ends of an interpreter's streams.
struct HostEnds {
    from_guest: FromGuestEnd,
    to_guest: ToGuestEnd,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

impl HostEnds {
    /// Makes the control socket and the pipes; returns the guest's ends, too.
    fn make() -> std::io::Result<(Self, [OwnedFd; 3])> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        // Our end alone: O_NONBLOCK belongs to the open file description, and the guest blocks on
        // its own.
        ours.set_nonblocking(true)?;
        let (from_guest, to_guest) = control::split(ours.into())?;
        // Without O_NONBLOCK, which pipe2(2) would set on both ends: a guest that prints into a
        // full pipe would get EAGAIN instead of waiting. Close-on-exec, because a program started
        // by this process would otherwise hold the pipe open, and its end would not show.
        let pair = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let (stdout, guest_stdout) = pair()?;
        let (stderr, guest_stderr) = pair()?;
        let ends = Self {
            from_guest,
            to_guest,
            stdout: pipe::Receiver::from_owned_fd(stdout)?,
            stderr: pipe::Receiver::from_owned_fd(stderr)?,
        };
        Ok((ends, [theirs.into(), guest_stdout, guest_stderr]))
    }
}

impl Kernel {
    /// Asks for an interpreter and returns at once; its process may not exist yet.
    pub(crate) fn start(
        enclosure: &Arc<dyn Enclosure>,
        start: &KernelStart,
        fail_at: u32,
    ) -> Result<Self, KernelError> {
        let (ends, guest_ends) = HostEnds::make().map_err(KernelError::Streams)?;
        let started =
            enclosure.start_kernel(start, guest_ends, fail_at).map_err(KernelError::Enter)?;
        let StartedKernel { number, life, entered } = started;
        Ok(Self {
            number,
            enclosure: Arc::clone(enclosure),
            frames: FrameReader::new(ends.from_guest, IDLE_BODY_BYTES_MAX),
            to_guest: ends.to_guest,
            stdout: ends.stdout,
            stderr: ends.stderr,
            life,
            next_cell: 1,
            greeted: false,
            left_behind: Vec::new(),
            alive: true,
            next_cell_setup: CellSetup::default(),
            entered: Some(entered),
        })
    }

    /// Waits for the interpreter's hello.
    pub async fn ready(&mut self) -> Result<(), KernelError> {
        if self.greeted {
            return Ok(());
        }
        let hello = tokio::time::timeout(HELLO_PATIENCE, self.frames.next()).await;
        match hello {
            Ok(Ok(FromGuest::Hello { left_behind })) => {
                self.greeted = true;
                self.left_behind = left_behind;
                Ok(())
            }
            Ok(Ok(FromGuest::Refused { step, errno })) => {
                self.alive = false;
                Err(KernelError::Refused { step, errno })
            }
            // The gate names the step that failed, if it could. Everything else, silence included,
            // ends here.
            _ => {
                self.alive = false;
                Err(self.why_not_ready().await)
            }
        }
    }

    async fn why_not_ready(&mut self) -> KernelError {
        // The streams only show that the interpreter ended. The tier knows whether it was ever
        // started.
        if let Some(entered) = self.entered.take()
            && let Ok(Err(failure)) = tokio::time::timeout(ANSWER_PATIENCE, entered).await
        {
            return KernelError::Enter(failure);
        }
        KernelError::NotReady(self.last_words())
    }

    /// Returns what is waiting on stderr, for the report of a failed start.
    fn last_words(&mut self) -> String {
        let mut words = Vec::with_capacity(LAST_WORDS_BYTES_MAX);
        read_waiting(&self.stderr, &mut words);
        match String::from_utf8_lossy(&words).trim() {
            "" => "it ended without a word".to_owned(),
            words => words.to_owned(),
        }
    }

    /// Sets variables and arguments before the first cell.
    pub async fn set_up(&mut self, setup: &Setup) -> Result<(), KernelError> {
        let Setup { environment, arguments, directory } = setup;
        let cwd = directory.as_deref().unwrap_or("/workspace");
        let head = ToGuest::Setup { env: environment, argv: arguments, cwd };
        self.send(&head, &[]).await
    }

    async fn send(&mut self, head: &ToGuest<'_>, body: &[u8]) -> Result<(), KernelError> {
        let frame = wire::encode(head, body);
        let sent = tokio::time::timeout(WRITE_PATIENCE, self.to_guest.write_all(&frame)).await;
        // Waiting for the guest's answer finds out whether it has ended or only does not read.
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(KernelError::Ended),
        }
    }

    /// Returns what was missing when it woke from an image.
    pub fn left_behind(&self) -> &[LeftBehind] {
        &self.left_behind
    }

    /// Sends a frame without a body, between two cells.
    pub(crate) async fn send_frame(&mut self, head: &ToGuest<'_>) -> Result<(), KernelError> {
        if !self.alive {
            return Err(KernelError::Ended);
        }
        self.frames.allow_bodies(IDLE_BODY_BYTES_MAX);
        self.send(head, &[]).await
    }

    /// Waits for a frame, between two cells.
    pub(crate) async fn next_frame(&mut self) -> Result<FromGuest, KernelError> {
        Ok(self.frames.next().await?)
    }

    /// Sends descriptors to the interpreter, which waits for them.
    pub(crate) fn send_descriptors(&self, descriptors: &[BorrowedFd<'_>]) -> std::io::Result<()> {
        self.to_guest.send_descriptors(descriptors)
    }

    /// Ends an interpreter that has lost step with the protocol.
    pub(crate) async fn give_up(&mut self) {
        self.alive = false;
        self.signal(KILL).await;
    }

    /// Ends an interpreter that answers what was not asked, or nothing.
    async fn out_of_step(&mut self) -> KernelError {
        self.give_up().await;
        KernelError::Ended
    }

    /// Sets what the next cell has of its own.
    pub fn set_up_next_cell(&mut self, setup: CellSetup) {
        self.next_cell_setup = setup;
    }

    /// Returns which names can follow the code before a cursor. Attributes are looked up in the
    /// interpreter, which may run code of the guest: an interpreter that does not answer in time is
    /// interrupted, and then ended.
    pub async fn complete(&mut self, code: &str) -> Result<Completions, KernelError> {
        match self.ask(&ToGuest::Complete, code, COMPLETE_PATIENCE).await? {
            FromGuest::Completions { start, matches } => {
                Ok(Completions { start: start as usize, matches })
            }
            _ => Err(self.out_of_step().await),
        }
    }

    /// Returns a text about the name at a cursor, in characters, or `None` if there is none. The same
    /// holds as for [`Self::complete`].
    pub async fn inspect(
        &mut self,
        code: &str,
        cursor: usize,
        detail: u8,
    ) -> Result<Option<String>, KernelError> {
        let head = ToGuest::Inspect { cursor: cursor.min(code.len()) as u64, detail };
        match self.ask(&head, code, INSPECT_PATIENCE).await? {
            FromGuest::Inspection { text } => Ok(text),
            _ => Err(self.out_of_step().await),
        }
    }

    /// Returns whether code is complete.
    pub async fn is_complete(&mut self, code: &str) -> Result<Completeness, KernelError> {
        match self.ask(&ToGuest::Check, code, COMPLETE_PATIENCE).await? {
            FromGuest::Checked { status, indent } => Ok(match status {
                CheckedStatus::Complete => Completeness::Complete,
                CheckedStatus::Incomplete => Completeness::Incomplete { indent },
                CheckedStatus::Invalid => Completeness::Invalid,
            }),
            _ => Err(self.out_of_step().await),
        }
    }

    /// Asks the interpreter something between cells. One that does not answer in time is interrupted,
    /// and then ended.
    async fn ask(
        &mut self,
        head: &ToGuest<'_>,
        code: &str,
        patience: Duration,
    ) -> Result<FromGuest, KernelError> {
        self.ready().await?;
        if !self.alive || code.len() > CODE_BYTES_MAX {
            return Err(KernelError::Ended);
        }
        self.frames.allow_bodies(INSPECTION_BYTES_MAX);
        self.send(head, code.as_bytes()).await?;
        for patience in [patience, ANSWER_PATIENCE] {
            match tokio::time::timeout(patience, self.frames.next()).await {
                Ok(Ok(frame)) => return Ok(frame),
                Ok(Err(_)) => break,
                Err(_) => self.signal(INT).await,
            }
        }
        Err(self.out_of_step().await)
    }

    /// Runs one cell to its end, whatever that is.
    pub async fn run(
        &mut self,
        code: &str,
        limits: &Limits,
        watcher: &mut dyn Watcher,
        controls: &mut mpsc::Receiver<Control>,
    ) -> Result<CellReport, KernelError> {
        if code.len() > CODE_BYTES_MAX {
            return Err(KernelError::CodeTooLong(code.len()));
        }
        if !self.alive {
            return Err(KernelError::Ended);
        }
        let report = cell::run(self, code, limits, watcher, controls).await?;
        self.alive = report.kernel_lives;
        Ok(report)
    }

    /// Returns whether cells can still be run. Asks the kernel too, because the report of an end
    /// takes a moment to come from the zone: between cells an interpreter sends nothing, so
    /// anything to read is bad.
    pub fn is_alive(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut watched = [PollFd::new(&self.to_guest, PollFlags::IN | PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Before `ready` has read it, the hello itself may be waiting here.
        let silent = !self.greeted || matches!(poll(&mut watched, Some(&now)), Ok(0));
        self.alive && silent && *self.life.borrow() == Life::Alive
    }

    /// Waits until the interpreter has ended, between cells.
    pub async fn ended(&mut self) {
        // A zone that has gone took the interpreter along.
        let _ = self.life.wait_for(|life| *life != Life::Alive).await;
        self.alive = false;
    }

    /// Ends it; its children and the sandbox's files stay.
    pub async fn kill(mut self) {
        self.signal(KILL).await;
        // A process stuck in the kernel is the sandbox's end to deal with.
        let _ = tokio::time::timeout(ANSWER_PATIENCE, self.ended()).await;
    }

    async fn signal(&self, signal: i32) {
        self.enclosure.signal_kernel(self.number, signal).await;
    }

    fn usage(&self) -> Usage {
        self.enclosure.usage()
    }
}

/// Takes what a pipe holds now, as much as there is room for; returns how much that was.
///
/// Asks the kernel. The runtime's own `try_read` answers from what it saw when it last looked
/// around: a guest that prints and sends its last frame just after that would have its output
/// forgotten.
fn read_waiting(pipe: &pipe::Receiver, into: &mut Vec<u8>) -> usize {
    // Nothing there, the end and a broken pipe are all the same here: nothing to take.
    rustix::io::read(pipe, rustix::buffer::spare_capacity(into)).unwrap_or(0)
}

impl From<WireError> for KernelError {
    /// Treats an interpreter that breaks the protocol as one that has ended.
    fn from(_: WireError) -> Self {
        Self::Ended
    }
}
