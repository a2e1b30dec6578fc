//! Errors of this crate, one variant for each thing a caller can act on.

use std::time::Duration;

use silica_domain::{CellId, CommandId, ItemKind, LimitError, NetworkError, UnknownId};
use silica_egress::EgressError;
use silica_engine::{
    BranchError, CommandError, EngineError, FileError, InputError, KernelError, TierError,
};
use silica_store::StoreError;
use silica_store::approvals::State;

use crate::approval::CheckResult;
use crate::fairness::AdmissionError;
use crate::session::EndReason;

/// Why an operation on sessions failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is no such sandbox, or it belongs to another key.
    #[error("there is no sandbox {0}")]
    NoSandbox(String),
    /// The sandbox has ended.
    #[error("sandbox {id} has ended: {}", .reason.explain())]
    Ended {
        /// The sandbox.
        id: String,
        /// Why it has ended.
        reason: EndReason,
    },
    /// There is no such kernel.
    #[error("there is no kernel {0} in this sandbox")]
    NoKernel(String),
    /// There is no such snapshot, or it belongs to another key.
    #[error("there is no snapshot {0}")]
    NoSnapshot(String),
    /// There is no such mark, or none that is old enough.
    #[error(
        "there is no mark to set the sandbox back to; make one with POST …/marks, or with mark on a cell"
    )]
    NoMark,
    /// The key has as many snapshots as it may, or they take as much memory as they may.
    #[error("a key may have at most {0} snapshots, and their bytes are limited; delete some first")]
    TooManySnapshots(usize),
    /// There is no such cell, or it is not kept any more.
    #[error("there is no cell {0} in this sandbox")]
    NoCell(String),
    /// There is no such command, or it is not kept any more.
    #[error("there is no command {0} in this sandbox")]
    NoCommand(String),
    /// The cell has ended.
    #[error("cell {0} has ended")]
    CellEnded(CellId),
    /// The command has ended, or has closed its standard input.
    #[error("command {0} has ended or has closed its standard input")]
    CommandEnded(CommandId),
    /// The policy blocks the code.
    #[error("the policy {} blocks this code: {}", .0.policy, .0.summary())]
    Blocked(Box<CheckResult>),
    /// There is no such approval.
    #[error("there is no approval {0}")]
    NoApproval(String),
    /// The approval was decided before, or has expired.
    #[error("approval {id} is already {}", .state.name())]
    AlreadyDecided {
        /// The approval.
        id: String,
        /// How it was decided.
        state: State,
    },
    /// The key that approves is the key that submitted the cell.
    #[error("approval {0} is for a cell of this key; another key must approve it")]
    OwnApproval(String),
    /// The sandbox of the approval has ended.
    #[error("the sandbox of approval {0} has ended; the approval can only be denied")]
    ApprovalVoid(String),
    /// The digest of the decision is not that of the code.
    #[error("approval {0} is for code with another sha256; read it again before you decide")]
    OtherCode(String),
    /// Too many approvals are pending.
    #[error("too many approvals are pending: {0}; decide some of them first")]
    TooManyWait(usize),
    /// The server requires approval for every execution, and commands cannot be approved.
    #[error("this server requires approval, which commands cannot get; run a cell instead")]
    NotApprovable,
    /// The sandbox has as many kernels as it may.
    #[error("a sandbox may have at most {0} kernels")]
    TooManyKernels(usize),
    /// The sandbox has as many watches as it may.
    #[error("a sandbox may have at most {0} watches of directories")]
    TooManyWatches(usize),
    /// As many questions as may be wait for the kernel.
    #[error("at most {0} questions may wait for a kernel; try again later")]
    TooManyQuestions(usize),
    /// There is no such watcher.
    #[error("there is no watcher {0} in this sandbox")]
    NoWatcher(String),
    /// The port may not be reached from outside.
    #[error("port {0} of this sandbox is not exposed; name it in network.expose at create")]
    PortNotExposed(u16),
    /// No server in the sandbox accepts connections on the port.
    #[error("no server in the sandbox listens on port {0}")]
    PortClosed(u16),
    /// The sandbox has as many connections to its ports as it may.
    #[error("a sandbox may have at most {0} connections to its ports")]
    TooManyPortConnections(usize),
    /// A value of the request is invalid. The text says which, and what is allowed.
    #[error("{0}")]
    Bad(String),
    /// The server does not have this template.
    #[error("there is no template {0} on this server")]
    NoTemplate(String),
    /// A limit of the request is invalid.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A quota or the capacity of the server is used up.
    #[error(transparent)]
    Refused(#[from] AdmissionError),
    /// An input could not be mounted.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An operation on files failed.
    #[error(transparent)]
    File(#[from] FileError),
    /// A command could not be started.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The interpreter could not be copied.
    #[error(transparent)]
    Branch(BranchError),
    /// The kernel runs a cell.
    #[error("the kernel runs a cell that did not end within {} s; interrupt it or try again", .0.as_secs())]
    Busy(Duration),
    /// The sandbox could not be created.
    #[error("the sandbox could not be created")]
    Engine(#[source] EngineError),
    /// An interpreter could not be started.
    #[error("the interpreter could not be started")]
    Kernel(#[source] KernelError),
    /// The zone did not answer.
    #[error("the sandbox could not be reached")]
    Zone(#[source] TierError),
    /// The zone has ended, and another was not started in time.
    #[error("no sandbox can be created: the zone process has ended and is being replaced")]
    NoZone,
    /// The store failed. Nothing runs that is not recorded.
    #[error("the operation could not be recorded")]
    Store(#[from] StoreError),
    /// A rule, a limit or a secret of a network is invalid. The text says which, and what is allowed.
    #[error("{0}")]
    BadNetwork(String),
    /// The operator does not offer this to the key.
    #[error(
        "this server does not offer {0}; its operator sets what it offers (network.* in its configuration)"
    )]
    NotOffered(String),
    /// There is no such secret.
    #[error("there is no secret {0}")]
    NoSecret(String),
    /// The key has as many secrets as it may.
    #[error("a key may have at most {0} secrets")]
    TooManySecrets(usize),
    /// The network could not be given or changed.
    #[error("the network of the sandbox could not be changed")]
    Egress(#[source] EgressError),
    /// The server is shutting down.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl SessionError {
    pub(crate) fn network(error: &NetworkError) -> Self {
        Self::BadNetwork(error.to_string())
    }
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

impl From<BranchError> for SessionError {
    fn from(error: BranchError) -> Self {
        match error {
            BranchError::Files(error) => Self::File(error),
            BranchError::Sandbox(error) => Self::from(*error),
            error => Self::Branch(error),
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
