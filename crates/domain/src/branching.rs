//! What a copy of a live sandbox lacks, and what decides whether it is made.

/// What kind of thing a copy of a sandbox does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeftKind {
    /// A thread; in a copy only the thread that runs cells exists.
    Thread,
    /// A process: a child of the interpreter, a command or another kernel.
    Process,
    /// Memory that several processes write to.
    SharedMemory,
    /// An open file without a path, or a file that could not be copied.
    File,
    /// One end of a pipe.
    Pipe,
    /// A socket; connections do not come along.
    Socket,
    /// A device, such as a terminal.
    Device,
    /// Another descriptor: epoll, eventfd, timerfd, inotify.
    Event,
    /// A timer of the process.
    Timer,
    /// A task of the kernel's event loop.
    Task,
}

impl LeftKind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Thread,
        Self::Process,
        Self::SharedMemory,
        Self::File,
        Self::Pipe,
        Self::Socket,
        Self::Device,
        Self::Event,
        Self::Timer,
        Self::Task,
    ];

    /// Returns its name in responses and frames.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Process => "process",
            Self::SharedMemory => "shared_memory",
            Self::File => "file",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Event => "event",
            Self::Timer => "timer",
            Self::Task => "task",
        }
    }
}

/// Something that a copy of a sandbox does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// What kind of thing it is.
    pub kind: LeftKind,
    /// What it is called in the sandbox; text of the guest, without control characters.
    pub name: String,
}

/// The longest name of one thing that is left behind.
const NAME_CHARS_MAX: usize = 300;

impl LeftBehind {
    /// Makes one of a guest's words; `None` if there is no such kind.
    pub fn of_guest(kind: &str, name: &str) -> Option<Self> {
        let kind = LeftKind::ALL.into_iter().find(|known| known.name() == kind)?;
        Some(Self::new(kind, name))
    }

    /// Makes one, with a name that may come from a guest.
    pub fn new(kind: LeftKind, name: &str) -> Self {
        let printable =
            |character: char| if character.is_control() { '\u{fffd}' } else { character };
        Self { kind, name: name.chars().take(NAME_CHARS_MAX).map(printable).collect() }
    }
}

/// What happens to something that would make a copy wrong if it were just missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflict {
    /// The copy is not made.
    #[default]
    Refuse,
    /// The copy is made without it, and it is listed as left behind.
    LeaveBehind,
}

/// Whether a copy draws the random numbers that its original would have drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Randomness {
    /// Its generators are seeded anew.
    #[default]
    Renew,
    /// Its generators go on from the same state.
    Keep,
}

/// How a live interpreter is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchOptions {
    /// Threads beside the one that runs cells.
    pub threads: Conflict,
    /// Memory that is shared with other processes; the copy gets its own.
    pub shared: Conflict,
    /// Other processes in the sandbox.
    pub processes: Conflict,
    /// The state of random number generators.
    pub randomness: Randomness,
}
