//! Live sandboxes of many owners: kernels and their cells, commands, lifetimes, fair use, audit.
//!
//! [`Sessions`] owns the engine and the store and hands out [`Session`]s by id, to their owner only.
//! Everything that runs is queued, takes its turn, is written to the audit log before it begins and
//! after it ends, and can be watched through an [`EventLog`]. Nothing here knows of HTTP.

mod approval;
mod audit;
mod busy_poll;
mod cell;
mod command;
mod create;
mod ending;
mod error;
mod event_log;
mod fairness;
mod kernel;
mod run_once;
mod session;
mod sessions;
mod statistics;

pub use approval::{AskWhen, Checked, PolicyChoice, Review, ReviewOptions, Word};
pub use cell::{Cell, CellEnd, CellPhase, CellRequest, InterruptOnDrop, KernelState};
pub use command::{Command, CommandEnded, CommandOutcome, CommandPhase, CommandRequest, What};
pub use create::{Create, limits_json};
pub use error::SessionError;
pub use event_log::{Event, EventLog, LOG_BYTES_MAX, Read, Reader, Text};
pub use fairness::{Admission, Capacity, Load, Quota, Refusal};
pub use kernel::{KernelInfo, KernelPhase};
pub use run_once::{RunReport, RunRequest};
pub use session::{
    EndReason, LifeChange, ReadOnlyFiles, Sample, Session, SessionInfo, Watcher, Watching,
};
pub use sessions::{Sessions, SessionsOptions};
pub use statistics::{Numbers, Observer};
