//! Why something could not be done, in terms a caller can act on.

use silica_domain::{CellId, CommandId, ItemKind, LimitError, UnknownId};
use silica_engine::{CommandError, EngineError, FileError, InputError, KernelError, TierError};
use silica_store::StoreError;
use silica_store::approvals::State;

use crate::approval::Checked;
use crate::fairness::Refusal;
use crate::session::EndReason;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No such sandbox, or another's.
    #[error("there is no sandbox {0}")]
    NoSandbox(String),
    /// It was there and has ended.
    #[error("sandbox {id} has ended: {}", .reason.explain())]
    Ended {
        /// Which.
        id: String,
        /// Why.
        reason: EndReason,
    },
    /// No such kernel in this sandbox.
    #[error("there is no kernel {0} in this sandbox")]
    NoKernel(String),
    /// No such cell in this sandbox, or one that is not kept any more.
    #[error("there is no cell {0} in this sandbox")]
    NoCell(String),
    /// No such command in this sandbox, or one that is not kept any more.
    #[error("there is no command {0} in this sandbox")]
    NoCommand(String),
    /// It has ended already.
    #[error("cell {0} has ended")]
    CellEnded(CellId),
    /// It has ended already, or reads nothing any more.
    #[error("command {0} has ended, or has closed its input")]
    CommandEnded(CommandId),
    /// The policy does not let it run.
    #[error("the policy {} does not let this code run: {}", .0.policy, .0.summary())]
    Blocked(Box<Checked>),
    /// Nothing of this id waits or was decided.
    #[error("there is no approval {0}")]
    NoApproval(String),
    /// Somebody else was first, or time was.
    #[error("approval {id} is {} already", .state.name())]
    AlreadyDecided {
        /// Which.
        id: String,
        /// How.
        state: State,
    },
    /// Whoever asks does not decide.
    #[error("a key may not approve what it asked for itself, as in {0}")]
    OwnApproval(String),
    /// There is nothing left that could run.
    #[error("the sandbox of approval {0} has ended, so it can only be denied")]
    ApprovalVoid(String),
    /// Somebody looked at something else.
    #[error("approval {0} is about code of another digest")]
    OtherCode(String),
    /// Too many wait for a person.
    #[error("{0} executions wait for a person already")]
    TooManyWait(usize),
    /// What cannot be approved is not done where everything has to be.
    #[error("every execution has to be approved here, and commands cannot be; run a cell")]
    NotApprovable,
    /// Too many kernels.
    #[error("a sandbox has at most {0} kernels")]
    TooManyKernels(usize),
    /// Too many watches.
    #[error("a sandbox has at most {0} watches of its files")]
    TooManyWatches(usize),
    /// No such watcher in this sandbox.
    #[error("there is no watcher {0} in this sandbox")]
    NoWatcher(String),
    /// A value that cannot be had.
    #[error("{0}")]
    Bad(String),
    /// The template is not offered here.
    #[error("there is no template {0} on this server")]
    NoTemplate(String),
    /// A limit that cannot be had.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Not now.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// An input that is refused.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file that is refused or full.
    #[error(transparent)]
    File(#[from] FileError),
    /// A command that could not be started.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The sandbox could not be made.
    #[error("the sandbox could not be made")]
    Engine(#[source] EngineError),
    /// An interpreter could not be started or spoken to.
    #[error("the interpreter could not be started")]
    Kernel(#[source] KernelError),
    /// The zone failed.
    #[error("the sandbox could not be reached")]
    Zone(#[source] TierError),
    /// Without a record nothing is run.
    #[error("what is to be done could not be recorded")]
    Store(#[from] StoreError),
    /// The server is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl From<UnknownId> for SessionError {
    fn from(error: UnknownId) -> Self {
        match error.kind {
            ItemKind::Cell => Self::NoCell(error.text),
            ItemKind::Kernel => Self::NoKernel(error.text),
            ItemKind::Command => Self::NoCommand(error.text),
            ItemKind::Watcher => Self::NoWatcher(error.text),
        }
    }
}

impl From<EngineError> for SessionError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::UnknownTemplate(name) => Self::NoTemplate(name),
            EngineError::Limits(error) => Self::Limit(error),
            EngineError::Input(error) => Self::Input(error),
            error => Self::Engine(error),
        }
    }
}

impl From<KernelError> for SessionError {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::CodeTooLong(_) => Self::Bad(error.to_string()),
            error => Self::Kernel(error),
        }
    }
}

impl From<TierError> for SessionError {
    fn from(error: TierError) -> Self {
        Self::Zone(error)
    }
}
