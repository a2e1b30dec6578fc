//! Calls on the state of this process that an image carries: its thread, its signals, its heap.

use super::{Errno, call, value};

const SYS_RT_SIGACTION: usize = 13;
const SYS_RT_SIGPROCMASK: usize = 14;
const SYS_BRK: usize = 12;
const SYS_GETCWD: usize = 79;
const SYS_SIGALTSTACK: usize = 131;
const SYS_ARCH_PRCTL: usize = 158;
const SYS_GETTID: usize = 186;
const SYS_SET_TID_ADDRESS: usize = 218;
const SYS_SET_ROBUST_LIST: usize = 273;
const SYS_GET_ROBUST_LIST: usize = 274;
const SYS_RSEQ: usize = 334;

/// The kernel's `struct sigaction`: handler, flags, restorer, mask.
pub(crate) type SignalAction = [u64; 4];
/// `stack_t`: address, flags, size.
pub(crate) type SignalStack = [u64; 3];

const SIGNAL_SET_BYTES: usize = 8;

/// Returns what happens on a signal.
pub(crate) fn signal_action(signal: u32) -> Result<SignalAction, Errno> {
    let mut action: SignalAction = [0; 4];
    let old = action.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes one action of 32 bytes at `old`, which is held exclusively; the
    // pointer to a new action is null.
    unsafe { call(SYS_RT_SIGACTION, [signal as usize, 0, old, SIGNAL_SET_BYTES, 0, 0]) }?;
    Ok(action)
}

/// Sets what happens on a signal.
///
/// # Safety
/// A handler in `action` must be a function that may run at any moment.
pub(crate) unsafe fn set_signal_action(signal: u32, action: &SignalAction) -> Result<(), Errno> {
    let new = action.as_ptr().expose_provenance();
    // SAFETY: the kernel reads one action of 32 bytes; the caller vouches for the handler.
    unsafe { call(SYS_RT_SIGACTION, [signal as usize, new, 0, SIGNAL_SET_BYTES, 0, 0]) }.map(drop)
}

/// Blocks every signal; returns those that were blocked before.
pub(crate) fn block_signals() -> Result<u64, Errno> {
    const SIG_SETMASK: usize = 2;
    let all = [u64::MAX];
    let mut before = [0_u64];
    let new = all.as_ptr().expose_provenance();
    let old = before.as_mut_ptr().expose_provenance();
    // SAFETY: both are signal sets of 8 bytes, as the size says; `before` is held exclusively.
    unsafe { call(SYS_RT_SIGPROCMASK, [SIG_SETMASK, new, old, SIGNAL_SET_BYTES, 0, 0]) }?;
    Ok(before[0])
}

/// Returns the stack of signal handlers.
pub(crate) fn signal_stack() -> Result<SignalStack, Errno> {
    let mut stack: SignalStack = [0; 3];
    let old = stack.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes one `stack_t` of 24 bytes, which is held exclusively.
    unsafe { call(SYS_SIGALTSTACK, [0, old, 0, 0, 0, 0]) }?;
    Ok(stack)
}

/// Sets the stack of signal handlers.
///
/// # Safety
/// The memory that `stack` names must be used for nothing else.
pub(crate) unsafe fn set_signal_stack(stack: &SignalStack) -> Result<(), Errno> {
    let new = stack.as_ptr().expose_provenance();
    // SAFETY: the kernel reads one `stack_t`; the caller vouches for the memory that it names.
    unsafe { call(SYS_SIGALTSTACK, [new, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Writes the working directory, with its final zero byte, into `path`.
pub(crate) fn working_directory(path: &mut [u8]) -> Result<usize, Errno> {
    let at = path.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes at most `path.len()` bytes at a buffer held exclusively.
    unsafe { call(SYS_GETCWD, [at, path.len(), 0, 0, 0, 0]) }
}

/// Returns the end of the heap.
pub(crate) fn heap_end() -> u64 {
    // SAFETY: an end of 0 is below the heap, so the kernel changes nothing and answers where it is.
    unsafe { call(SYS_BRK, [0; 6]) }.unwrap_or(0) as u64
}

/// Returns the address of this thread's block: the base of the segment register fs.
pub(crate) fn thread_block() -> Result<u64, Errno> {
    const ARCH_GET_FS: usize = 0x1003;
    let mut base = [0_u64];
    let at = base.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes 8 bytes at `base`, which is held exclusively.
    unsafe { call(SYS_ARCH_PRCTL, [ARCH_GET_FS, at, 0, 0, 0, 0]) }?;
    Ok(base[0])
}

pub(crate) fn thread_id() -> u32 {
    // SAFETY: the call takes no argument and always succeeds.
    unsafe { call(SYS_GETTID, [0; 6]) }.unwrap_or(0) as u32
}

/// Makes the kernel clear the word at `address` when this thread ends.
///
/// # Safety
/// Nothing but the C library's thread block may be at `address`.
pub(crate) unsafe fn set_thread_id_address(address: u64) {
    // SAFETY: the caller vouches for the word. The call always succeeds.
    let _ = unsafe { call(SYS_SET_TID_ADDRESS, [address as usize, 0, 0, 0, 0, 0]) };
}

/// Returns address and size of this thread's list of robust locks.
pub(crate) fn robust_list() -> Result<[u64; 2], Errno> {
    let mut list = [0_u64; 2];
    let head = list.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes 8 bytes at each of the two words, which are held exclusively.
    unsafe { call(SYS_GET_ROBUST_LIST, [0, head, head + 8, 0, 0, 0]) }?;
    Ok(list)
}

/// Sets this thread's list of robust locks.
///
/// # Safety
/// `list` must come from [`robust_list`] in a process with the memory of this one.
pub(crate) unsafe fn set_robust_list(list: [u64; 2]) -> Result<(), Errno> {
    // SAFETY: the caller vouches that the list is where it was.
    unsafe { call(SYS_SET_ROBUST_LIST, [list[0] as usize, list[1] as usize, 0, 0, 0, 0]) }.map(drop)
}

/// What to do with the area of restartable sequences.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequences {
    Register,
    Unregister,
}

/// Registers or unregisters the area of restartable sequences, into which the kernel writes
/// whenever it takes the processor away; rseq(2).
///
/// # Safety
/// The `length` bytes at `area` must be the C library's area of this thread.
pub(crate) unsafe fn set_sequences(area: u64, length: usize, what: Sequences) -> Result<(), Errno> {
    /// What the C library puts before abort handlers.
    const SIGNATURE: usize = 0x5305_3053;
    let flags = usize::from(what == Sequences::Unregister);
    // SAFETY: the caller vouches for the area.
    unsafe { call(SYS_RSEQ, [area as usize, length, flags, SIGNATURE, 0, 0]) }.map(drop)
}

/// Returns the length of a file.
pub(crate) fn file_length(file: i32) -> Result<u64, Errno> {
    const SYS_FSTAT: usize = 5;
    // `st_size` is at byte 48 of `struct stat`, which has 144 bytes on x86-64.
    let mut stat = [0_u64; 18];
    let at = stat.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes one `struct stat` at `stat`, which is held exclusively.
    unsafe { call(SYS_FSTAT, [value(file), at, 0, 0, 0, 0]) }?;
    Ok(stat[6])
}
