//! Live sandboxes of many owners: kernels and their cells, commands, lifetimes, fair use, audit.
//!
//! [`Sessions`] owns the engine and the store, and finds a [`Session`] by id for its owner. Every execution is
//! admitted, recorded in the audit log before it begins and after it ends, and can be followed through its
//! [`EventLog`]. Nothing here knows of HTTP.
//!
//! The integration tests are in `tests/it/server` and `tests/it/sessions`, since only the binary can start sandboxes.

mod approval;
mod audit;
mod branching;
mod busy_poll;
mod cell;
mod command;
mod cpu_shares;
mod create;
mod ending;
mod error;
mod event_log;
mod fairness;
mod kept;
mod kernel;
mod marks;
mod network;
mod ports;
mod revocation;
mod run_once;
mod session;
mod sessions;
mod snapshots;
mod statistics;

pub use approval::{ApprovalMode, CheckResult, DecisionRequest, Review, ReviewOptions};
pub use branching::{ForkRequest, Forked};
pub use cell::{Cell, CellCode, CellEnd, CellPhase, CellRequest, InterruptOnDrop, KernelState};
pub use command::{
    Command, CommandEnded, CommandInvocation, CommandOutcome, CommandPhase, CommandRequest,
};
pub use create::SandboxRequest;
pub use error::SessionError;
pub use event_log::{EventLog, LOG_BYTES_MAX, LogEvent, LogRead, LogReader, OutputText};
pub use fairness::{
    Admission, AdmissionError, Budget, Capacity, Load, Permit, Quota, Reservation, Resource,
};
pub use kernel::{KernelInfo, KernelPhase};
pub use marks::{Mark, UndoTo};
pub use network::{
    CellNetwork, InlineSecret, KeyCeiling, LoneSockets, NetworkInfo, NetworkOptions, NetworkPreset,
    NetworkRequest, OfferedSecret, SecretDraft, SecretInfo, TokenCounter, bind_secret,
};
pub use ports::{Audience, EXPOSED_PORT_MIN, EXPOSED_PORTS_MAX, Exposure};
pub use run_once::{RunEnd, RunReport, RunRequest};
pub use session::{
    EndReason, FileChange, FileWatch, FileWatcher, InsideFile, LifeChange, PortConnection, PortUse,
    ReadOnlyFiles, Session, SessionInfo, UsageSample,
};
pub use sessions::{Sessions, SessionsOptions};
pub use silica_engine::{Completeness, Completions};
pub use snapshots::SandboxSnapshot;
pub use statistics::{CellObserver, Statistics};
