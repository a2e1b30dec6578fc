//! Calls on the memory of this process, and on files that exist in memory only.

use core::ffi::CStr;

use super::{Errno, ValueCall, call, value};

const SYS_MMAP: usize = 9;
const SYS_MPROTECT: usize = 10;
const SYS_MUNMAP: usize = 11;
const SYS_PWRITE64: usize = 18;
const SYS_MREMAP: usize = 25;
const SYS_MADVISE: usize = 28;
const SYS_GETRANDOM: usize = 318;
const SYS_MEMFD_CREATE: usize = 319;

const PROT_NONE: usize = 0;
const PROT_READ_WRITE: usize = 3;
const PROT_READ_EXECUTE: usize = 5;

/// What a new mapping shows. It is always private to this process.
enum Mapping {
    /// Zeros, readable and writable.
    Zeros,
    /// Nothing: the addresses are only kept from being used for something else.
    Reserved,
    /// A part of a file: to write, privately, or to execute.
    File { file: i32, offset: usize, writable: bool },
}

/// Maps `length` bytes where the kernel finds room; returns their address.
fn map_anywhere(length: usize, mapping: Mapping) -> Result<usize, Errno> {
    const MAP_PRIVATE: usize = 2;
    const MAP_ANONYMOUS: usize = 0x20;
    const MAP_NORESERVE: usize = 0x4000;
    const NO_FILE: usize = usize::MAX;
    let (protection, flags, file, offset) = match mapping {
        Mapping::Zeros => (PROT_READ_WRITE, MAP_ANONYMOUS, NO_FILE, 0),
        Mapping::Reserved => (PROT_NONE, MAP_ANONYMOUS | MAP_NORESERVE, NO_FILE, 0),
        Mapping::File { file, offset, writable: true } => (PROT_READ_WRITE, 0, value(file), offset),
        Mapping::File { file, offset, writable: false } => {
            (PROT_READ_EXECUTE, 0, value(file), offset)
        }
    };
    // SAFETY: the address is null and MAP_FIXED is not among the flags, so the kernel picks
    // addresses at which nothing is mapped: no memory that is in use changes.
    unsafe { call(SYS_MMAP, [0, length, protection, MAP_PRIVATE | flags, file, offset]) }
}

/// Maps `size` bytes of zeros.
pub(crate) fn map(size: usize) -> Result<usize, Errno> {
    map_anywhere(size, Mapping::Zeros)
}

/// Reserves addresses that nothing else is put at, without memory behind them.
pub(crate) fn reserve(size: usize) -> Result<usize, Errno> {
    map_anywhere(size, Mapping::Reserved)
}

/// Maps a part of a file for this process alone: to write, or to execute.
pub(crate) fn map_file(
    file: i32,
    offset: usize,
    length: usize,
    writable: bool,
) -> Result<usize, Errno> {
    map_anywhere(length, Mapping::File { file, offset, writable })
}

/// Makes memory of reserved addresses.
///
/// # Safety
/// All of the range must come from [`reserve`]. Elsewhere this would make constants writable and
/// code not executable.
pub(crate) unsafe fn make_writable(address: usize, size: usize) -> Result<(), Errno> {
    // SAFETY: the caller vouches that the range is reserved, so nothing relies on its protection.
    unsafe { call(SYS_MPROTECT, [address, size, PROT_READ_WRITE, 0, 0, 0]) }.map(drop)
}

/// Gives memory back to the kernel and keeps the addresses; they read as zeros from then on.
///
/// # Safety
/// Nothing may expect to find in the range what was written there.
pub(crate) unsafe fn discard(address: usize, size: usize) -> Result<(), Errno> {
    const MADV_DONTNEED: usize = 4;
    // SAFETY: the caller vouches that the contents of the range are not needed any more.
    unsafe { call(SYS_MADVISE, [address, size, MADV_DONTNEED, 0, 0, 0]) }.map(drop)
}

/// Gives memory and addresses back to the kernel.
///
/// # Safety
/// Nothing may use the range any more.
pub(crate) unsafe fn unmap(address: usize, size: usize) -> Result<(), Errno> {
    // SAFETY: the caller vouches that nothing uses the range.
    unsafe { call(SYS_MUNMAP, [address, size, 0, 0, 0, 0]) }.map(drop)
}

/// Moves a mapping to an address, in place of what is mapped there, in one step.
///
/// # Safety
/// Nothing may use the `length` bytes at `from` any more. Code that uses those at `to` must find
/// the same bytes, with the access it needs, in what replaces them.
pub(crate) unsafe fn move_mapping(from: usize, length: usize, to: usize) -> Result<(), Errno> {
    const MREMAP_MAYMOVE_FIXED: usize = 3;
    // SAFETY: the caller vouches for both ranges.
    unsafe { call(SYS_MREMAP, [from, length, length, MREMAP_MAYMOVE_FIXED, to, 0]) }.map(drop)
}

/// Writes memory into a file; returns how many bytes.
///
/// # Safety
/// Nothing may write to that memory meanwhile.
pub(crate) unsafe fn write_at(
    file: i32,
    address: usize,
    length: usize,
    offset: usize,
) -> Result<usize, Errno> {
    // SAFETY: the kernel only reads there, and answers EFAULT for what is not mapped. The caller
    // vouches that the bytes do not change meanwhile.
    unsafe { call(SYS_PWRITE64, [value(file), address, length, offset, 0, 0]) }
}

/// Writes up to `length` random bytes at `address`; returns how many.
///
/// # Safety
/// Nothing may hold a reference to those bytes, and any bytes must be a valid value of what is
/// there.
pub(crate) unsafe fn random(address: usize, length: usize) -> Result<usize, Errno> {
    // SAFETY: the caller vouches for the bytes; the kernel answers EFAULT for what is not mapped.
    unsafe { call(SYS_GETRANDOM, [address, length, 0, 0, 0, 0]) }
}

/// Makes a file that exists in memory only, and can be sealed.
pub(crate) fn memory_file(name: &CStr) -> Result<i32, Errno> {
    const MFD_CLOEXEC_ALLOW_SEALING: usize = 3;
    let name = name.as_ptr().expose_provenance();
    // SAFETY: `name` is a live NUL-terminated string, which the kernel only reads.
    let opened = unsafe { call(SYS_MEMFD_CREATE, [name, MFD_CLOEXEC_ALLOW_SEALING, 0, 0, 0, 0]) };
    opened.map(|number| number as i32)
}

pub(crate) fn set_length(file: i32, length: usize) -> Result<(), Errno> {
    ValueCall::Ftruncate { file, length }.make().map(drop)
}

/// Seals a file in memory, for good, against every change, including a change of its seals.
pub(crate) fn seal(file: i32) -> Result<(), Errno> {
    const SEAL_SEAL_SHRINK_GROW_WRITE: u32 = 1 | 2 | 4 | 8;
    ValueCall::AddSeals { file, seals: SEAL_SEAL_SHRINK_GROW_WRITE }.make().map(drop)
}
