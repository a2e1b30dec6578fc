//! What the kernel knows of a process beside its memory: signal handlers, the thread's block, the
//! heap's end, the working directory. The writer keeps it in its own memory, so that it is a part
//! of the image, and the process that has become the image sets it again.

use core::cell::UnsafeCell;
use core::ffi::CStr;

use crate::sys::{self, EINVAL, Errno, Sequences, SignalAction, SignalStack};

const SIGNALS: usize = 64;
const SIGKILL: u32 = 9;
const SIGSTOP: u32 = 19;
const PATH_BYTES_MAX: usize = 4096;

/// Where glibc keeps the thread's id in its thread block, on x86-64.
const THREAD_ID_OFFSET: u64 = 0x2d0;
/// How much of the thread block is searched for the id if it is not there.
const THREAD_BLOCK_BYTES: u64 = 2304;

/// The longest area of restartable sequences.
const SEQUENCES_BYTES_MAX: usize = 256;
/// The shortest, which all C libraries register so far.
const SEQUENCES_BYTES_MIN: usize = 32;

/// What Python knows of its C library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Carrier {
    /// The distance of the area of restartable sequences from the thread block.
    pub sequences_offset: i64,
    /// Whether there is such an area.
    pub has_sequences: u64,
    /// The address of the C library's idea of the heap's end; 0 if it is not known.
    pub heap_end_address: u64,
}

/// What is kept. All integers.
struct Life {
    actions: [SignalAction; SIGNALS + 1],
    signal_stack: SignalStack,
    signal_mask: u64,
    robust_list: [u64; 2],
    thread_block: u64,
    thread_id_offset: u64,
    sequences: u64,
    sequences_bytes: usize,
    heap_end: u64,
    heap_end_address: u64,
    umask: u32,
    directory: [u8; PATH_BYTES_MAX],
}

struct Kept(UnsafeCell<Life>);

// SAFETY: written by `keep` and read by `take_up` alone, both in processes of one thread.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept(UnsafeCell::new(Life {
    actions: [[0; 4]; SIGNALS + 1],
    signal_stack: [0; 3],
    signal_mask: 0,
    robust_list: [0; 2],
    thread_block: 0,
    thread_id_offset: 0,
    sequences: 0,
    sequences_bytes: 0,
    heap_end: 0,
    heap_end_address: 0,
    umask: 0,
    directory: [0; PATH_BYTES_MAX],
}));

/// What the image's header repeats.
pub(super) struct Place {
    pub(super) thread_block: u64,
    pub(super) heap_end: u64,
}

/// Keeps the state of this process, and blocks all its signals.
pub(super) fn keep(carrier: &Carrier) -> Result<Place, Errno> {
    // SAFETY: this process has one thread, and no other reference to it exists: `keep` and
    // `take_up` do not call each other.
    let life = unsafe { &mut *KEPT.0.get() };
    life.signal_mask = sys::block_signals()?;
    for signal in 1..=SIGNALS as u32 {
        life.actions[signal as usize] = sys::signal_action(signal)?;
    }
    life.signal_stack = sys::signal_stack()?;
    life.robust_list = sys::robust_list()?;
    life.umask = sys::umask(0);
    sys::umask(life.umask);
    life.directory = [0; PATH_BYTES_MAX];
    // A directory that was removed has no path; the image then goes on in the reader's.
    let _ = sys::working_directory(&mut life.directory[..PATH_BYTES_MAX - 1]);
    life.heap_end = sys::heap_end();
    life.heap_end_address = carrier.heap_end_address;
    life.thread_block = sys::thread_block()?;
    life.thread_id_offset = thread_id_offset(life.thread_block)?;
    (life.sequences, life.sequences_bytes) = match carrier.has_sequences {
        0 => (0, 0),
        _ => {
            let area = life.thread_block.wrapping_add_signed(carrier.sequences_offset);
            (area, forget_sequences(carrier)?)
        }
    };
    Ok(Place { thread_block: life.thread_block, heap_end: life.heap_end })
}

/// Unregisters this thread's area of restartable sequences; returns its length.
pub(super) fn forget_sequences(carrier: &Carrier) -> Result<usize, Errno> {
    if carrier.has_sequences == 0 {
        return Ok(0);
    }
    let area = sys::thread_block()?.wrapping_add_signed(carrier.sequences_offset);
    for length in (SEQUENCES_BYTES_MIN..=SEQUENCES_BYTES_MAX).step_by(4) {
        // SAFETY: the area is where the C library says. The kernel refuses any length but the one
        // it was registered with.
        match unsafe { sys::set_sequences(area, length, Sequences::Unregister) } {
            Ok(()) => return Ok(length),
            Err(EINVAL) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(EINVAL)
}

/// Finds the thread's id in its block.
fn thread_id_offset(block: u64) -> Result<u64, Errno> {
    let id = sys::thread_id();
    if word_at(block + THREAD_ID_OFFSET) == id {
        return Ok(THREAD_ID_OFFSET);
    }
    let mut offsets = (0..THREAD_BLOCK_BYTES).step_by(4);
    let mut found = offsets.by_ref().filter(|offset| word_at(block + offset) == id);
    match (found.next(), found.next()) {
        (Some(offset), None) => Ok(offset),
        // Not there, or not told apart from another word: an unknown C library.
        _ => Err(EINVAL),
    }
}

fn word_at(address: u64) -> u32 {
    let word: *const u32 = core::ptr::with_exposed_provenance(address as usize);
    // SAFETY: called for words of the thread block alone, which is 2304 bytes long and aligned.
    unsafe { word.read_volatile() }
}

/// Sets what the kernel has to know of this process, which has just become the image.
pub(super) fn take_up() -> Result<(), Errno> {
    // SAFETY: this process has one thread, and no other reference to it exists.
    let life = unsafe { &*KEPT.0.get() };
    let id_address = life.thread_block + life.thread_id_offset;
    let id: *mut u32 = core::ptr::with_exposed_provenance_mut(id_address as usize);
    // SAFETY: `keep` found the thread's id there, and the memory is the same.
    unsafe { id.write_volatile(sys::thread_id()) };
    // SAFETY: the word is the C library's.
    unsafe { sys::set_thread_id_address(id_address) };
    // SAFETY: the list is the one that the C library had registered, in the same memory.
    unsafe { sys::set_robust_list(life.robust_list) }?;
    if life.sequences != 0 {
        let critical: *mut u64 =
            core::ptr::with_exposed_provenance_mut(life.sequences as usize + 8);
        // SAFETY: `rseq_cs` is the word at byte 8 of the C library's area; no sequence is running.
        unsafe { critical.write_volatile(0) };
        // SAFETY: the area is the one that the C library had registered, in the same memory.
        unsafe { sys::set_sequences(life.sequences, life.sequences_bytes, Sequences::Register) }?;
    }
    adjust_heap(life);
    for signal in (1..=SIGNALS as u32).filter(|signal| !matches!(*signal, SIGKILL | SIGSTOP)) {
        // SAFETY: the handlers are those that the image had, in the same memory. The C library's
        // own signals refuse changes, which is no error.
        let _ = unsafe { sys::set_signal_action(signal, &life.actions[signal as usize]) };
    }
    // SAFETY: the memory is the one that the image had set aside for handlers.
    unsafe { sys::set_signal_stack(&life.signal_stack) }?;
    sys::umask(life.umask);
    if let Ok(directory) = CStr::from_bytes_until_nul(&life.directory)
        && !directory.is_empty()
    {
        // It may not have come along; the reader's directory is as good as any other then.
        let _ = sys::chdir(directory);
    }
    sys::set_signal_mask(life.signal_mask)
}

/// Tells the C library where the heap of this process ends. The kernel's idea of it comes from the
/// process that became the image. If it is above the image's own, the C library would take memory
/// that is not there for its next heap; if it is below, `brk` fails and `malloc` maps memory
/// instead.
fn adjust_heap(life: &Life) {
    let heap_end = sys::heap_end();
    if life.heap_end_address != 0 && heap_end > life.heap_end {
        let known: *mut u64 =
            core::ptr::with_exposed_provenance_mut(life.heap_end_address as usize);
        // SAFETY: Python found the C library's variable there, in the same memory; this process
        // has one thread.
        unsafe { known.write_volatile(heap_end) };
    }
}
