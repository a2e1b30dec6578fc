//! Sandboxes, kernels, templates and the pool, on top of the jail.
//!
//! [`Engine`] owns one zone and hands out [`Sandbox`]es. A sandbox runs cells and ends in a
//! [`Report`] for each. The guest's words are decoded in `wire`, its files are reached through
//! `files`, and both are treated as hostile.

mod command;
mod containment;
mod control;
mod engine;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guest;
mod inputs;
mod kernel;
mod output;
mod pool;
mod sandbox;
mod wire;
mod zone;

pub use command::{
    COMMANDS_MAX, Command, CommandEnd, CommandError, CommandEvent, CommandExit, CommandHandle,
    CommandSpec, Input as CommandInput, Stdin, TerminalSize,
};
pub use engine::{CreateOptions, Engine, EngineError, EngineOptions, Interpreter, ZygotePolicy};
pub use files::{
    Archived, ChangedFile, Changes, DEPTH_MAX, ENTRIES_MAX, Existing, Extracted, FILE_MODE_DEFAULT,
    FileError, FileKind, FileStat, Files, GuestPath, Happening, Listed, Listing, Made, Metadata,
    Notice, Opened, Overwrite, Owner, Parents, Range, Reach, Reader, Removal, SCAN_ENTRIES_MAX,
    Snapshot, Watch, WriteOptions, Writer,
};
pub use guest::GuestError;
pub use inputs::{Input, InputError};
pub use kernel::{CODE_BYTES_MAX, Control, Kernel, KernelError, Report, Setup, Unwatched, Watcher};
pub use output::HeadTail;
pub use sandbox::{CreateError, Faults, Sandbox};
pub use zone::CallError;
