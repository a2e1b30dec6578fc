//! The gate: native code that takes one process into an enclosure and locks it in there.
//!
//! It is built twice from this source. As an ordinary library the zone master links it, for
//! interpreters and commands that start by `exec`. As the freestanding `gate.so` the zygote loads
//! it, so that no Python code takes part in forking and locking in: Python calls the gate, and the
//! call returns in each child, which is locked in by then. Therefore the gate has no `std`, no
//! allocation and no libc; it makes raw system calls only, and a step that fails ends the attempt.
//!
//! The same library carries an interpreter from one sandbox to another (`image`).
//!
//! Tests: `tests/it/jail/entering.rs`, `tests/it/jail/containment.rs`, `tests/it/jail/forks.rs`.
#![no_std]
#![expect(unsafe_code, reason = "raw system calls are what this crate is for")]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("Silica's jail is written for and tested on x86-64 Linux only");

mod arena;
mod enter;
mod image;
mod libraries;
mod sys;
mod verify;
mod zygote;

pub use arena::{silica_arena_alloc, silica_arena_free, silica_arena_reserve};
pub use enter::{
    FinalFilter, Step, drop_privileges, empty_bounding_set, enter, load_init_filter, report_failure,
};
pub use image::{Carrier, silica_image_become, silica_image_write};
pub use libraries::{EachLibrary, Library, silica_gather_libraries};
pub use sys::{Errno, Instruction};
pub use zygote::{
    ChildNotice, ENTRY_FDS_MAX, Entry, EntryRequest, Fork, NAMESPACES, NOTICE_EXITED,
    NOTICE_FORKED, RLIMITS_MAX, Rlimit, Span, confine_zygote, silica_zygote_lock,
    silica_zygote_serve,
};

/// The precompiled `core` names this symbol in its unwind tables; nothing here unwinds.
#[cfg(silica_gate_so)]
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Ends the process: in the freestanding build nothing could catch an unwind.
#[cfg(silica_gate_so)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit_group(122)
}
