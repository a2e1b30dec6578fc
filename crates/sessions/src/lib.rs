//! Live sandboxes of many owners: kernels and their cells, commands, lifetimes, fair use, audit.
//!
//! [`Sessions`] owns the engine and the store and hands out [`Session`]s by id, to their owner only.
//! Everything that runs is queued, takes its turn, is written to the audit log before it begins and
//! after it ends, and can be watched through an [`EventLog`]. Nothing here knows of HTTP.

mod admission;
mod audit;
mod cell;
mod command;
mod error;
mod kernel;
mod log;
mod review;
mod session;
mod sessions;
mod usage;
mod wakeful;
mod watch;

pub use admission::{Admission, Capacity, Load, Quota, Refusal};
pub use cell::{Cell, CellEnd, CellPhase, CellRequest, KernelState};
pub use command::{Command, CommandEnded, CommandOutcome, CommandPhase, CommandRequest, What};
pub use error::SessionError;
pub use kernel::{KernelInfo, KernelPhase};
pub use log::{Event, EventLog, LOG_BYTES_MAX, Read, Reader, Text};
pub use review::{AskWhen, Checked, PolicyChoice, Review, ReviewOptions, Word};
pub use session::{EndReason, LifeChange, Session, SessionInfo};
pub use sessions::{
    Create, Numbers, Observer, RunReport, RunRequest, Sessions, SessionsOptions, limits_json,
};
pub use usage::Sample;
pub use watch::{Watcher, Watching};
