//! Sandboxes, kernels, commands, files and the pool, on top of an isolation tier.
//!
//! [`Engine`] runs one tier and hands out [`Sandbox`]es with a [`Kernel`] each. A kernel runs
//! cells; each ends in a [`CellReport`]. The guest's frames are decoded in `wire`, its files are
//! reached through `files`, and both are treated as hostile. What isolates a sandbox is behind
//! `tier`.

mod branch;
mod command;
mod control;
mod engine;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guest;
mod image;
mod inputs;
mod inside;
mod kernel;
mod network;
mod output;
mod pool;
mod program;
mod sandbox;
mod tier;
mod wire;

pub use branch::{Branch, Branched, Frozen, TWINS_MAX};
pub use command::{
    COMMANDS_MAX, CommandEnd, CommandError, CommandEvent, CommandExit, CommandHandle, CommandInput,
    CommandProcess, CommandSpec, Stdin, TerminalSize,
};
pub use engine::{CreateOptions, Engine, EngineError, EngineOptions, KernelOrigin};
pub use files::{
    Archived, ChangedFile, Changes, DEPTH_MAX, ENTRIES_MAX, Existing, Extracted, FILE_MODE_DEFAULT,
    FileError, FileKind, FileStat, Files, GuestPath, Happening, Listed, Listing, Made, Metadata,
    Notice, Opened, Overwrite, Owner, Parents, Range, Reach, Reader, Removal, SCAN_ENTRIES_MAX,
    Snapshot, Watch, WriteOptions, Writer,
};
pub use guest::GuestError;
pub use image::{BranchError, Carried, Image, ImageWriting};
pub use inputs::{Input, InputError};
pub use inside::{InsideEntry, InsideListing, InsidePath, InsideReader, LinkEnd, ReadPath};
pub use kernel::{
    CODE_BYTES_MAX, CellReport, CellSetup, Completeness, Completions, Control, Kernel, KernelError,
    Setup, Unwatched, Watcher,
};
pub use network::{
    GUEST_PREFIXES_MAX, GUEST_SOCKETS_MAX, GuestPrefix, GuestSocket, PROXY_PORT,
    SYNTHETIC_ADDRESSES, network_environment,
};
pub use output::{Decoder, HeadTail};
pub use sandbox::{CreateError, Created, Faults, Sandbox, SandboxPlan};
pub use tier::jail::{JailOptions, ZygotePolicy, host as jail_host};
pub use tier::{CpuShare, StepFailure, TierError, TierOptions};
