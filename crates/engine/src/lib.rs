//! Sandboxes, kernels, templates and the pool, on top of the jail.
//!
//! [`Engine`] owns one zone and hands out [`Sandbox`]es. A sandbox runs cells and ends in a
//! [`Report`] for each. The guest's words are decoded in `wire`, its files are reached through
//! `files`, and both are treated as hostile.

mod containment;
mod engine;
mod files;
mod guest;
mod inputs;
mod kernel;
mod output;
mod pool;
mod sandbox;
pub mod template;
mod wire;
mod zone;

pub use engine::{CreateOptions, Engine, EngineError, EngineOptions, Interpreter, ZygotePolicy};
pub use files::{FileError, Files, GuestPath, Opened};
pub use guest::GuestError;
pub use inputs::{Input, InputError};
pub use kernel::{CODE_BYTES_MAX, Control, Kernel, KernelError, Report, Setup, Unwatched, Watcher};
pub use output::HeadTail;
pub use sandbox::{CreateError, Faults, Sandbox};
pub use zone::CallError;
