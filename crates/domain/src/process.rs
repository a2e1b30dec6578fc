//! Processes of a guest: how they end, what they use, the size of their terminals. Holds numbers
//! only; the tier measures.

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

/// Resources that a sandbox has used so far, as far as its tier measures them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time.
    pub cpu_us: Option<u64>,
    /// The most memory held at once.
    pub memory_peak_bytes: Option<u64>,
    /// Memory held now.
    pub memory_bytes: Option<u64>,
    /// Processes that were killed for lack of memory.
    pub oom_kills: u64,
    /// Forks that were refused because of the limit on processes.
    pub fork_refusals: u64,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}
