//! Calls on the memory of this process, and on files that exist in memory only.

use core::ffi::CStr;

use super::{Errno, ValueCall, call, value};

const SYS_MMAP: usize = 9;
const SYS_MPROTECT: usize = 10;
const SYS_MUNMAP: usize = 11;
const SYS_PREAD64: usize = 17;
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

/// Maps `size` bytes of zeros that no neighbouring mapping is merged with.
pub(crate) fn map_apart(size: usize) -> Result<usize, Errno> {
    const MAP_SHARED_ANONYMOUS_NORESERVE: usize = 1 | 0x20 | 0x4000;
    let arguments = [0, size, PROT_READ_WRITE, MAP_SHARED_ANONYMOUS_NORESERVE, usize::MAX, 0];
    // SAFETY: the address is null and MAP_FIXED is not among the flags: no memory in use changes.
    unsafe { call(SYS_MMAP, arguments) }
}

/// Maps `size` bytes of zeros at exactly this address; fails if anything is mapped there.
pub(crate) fn map_at(address: usize, size: usize) -> Result<usize, Errno> {
    const MAP_PRIVATE_ANONYMOUS_FIXED_NOREPLACE: usize = 2 | 0x20 | 0x10_0000;
    let flags = MAP_PRIVATE_ANONYMOUS_FIXED_NOREPLACE;
    let arguments = [address, size, PROT_READ_WRITE, flags, usize::MAX, 0];
    // SAFETY: MAP_FIXED_NOREPLACE replaces no mapping: no memory in use changes.
    unsafe { call(SYS_MMAP, arguments) }
}

/// Maps a part of a file to write to it, with memory behind all of it.
pub(crate) fn map_to_write(file: i32, offset: usize, length: usize) -> Result<usize, Errno> {
    const MAP_SHARED_POPULATE: usize = 1 | 0x8000;
    let flags = MAP_SHARED_POPULATE;
    // SAFETY: the address is null and MAP_FIXED is not among the flags: no memory in use changes.
    unsafe { call(SYS_MMAP, [0, length, PROT_READ_WRITE, flags, value(file), offset]) }
}

/// Adds the right to read to a mapping.
///
/// # Safety
/// `protection` must be the one that the whole range has.
pub(crate) unsafe fn make_readable(
    address: usize,
    size: usize,
    protection: u32,
) -> Result<(), Errno> {
    // SAFETY: the caller vouches that no right is taken away, so nothing that uses the range
    // notices.
    unsafe { call(SYS_MPROTECT, [address, size, protection as usize | 1, 0, 0, 0]) }.map(drop)
}

/// Makes a range executable, and not writable any more.
///
/// # Safety
/// Nothing may write to the range from here on.
pub(crate) unsafe fn make_executable(address: usize, size: usize) -> Result<(), Errno> {
    // SAFETY: the caller vouches that nothing writes there.
    unsafe { call(SYS_MPROTECT, [address, size, PROT_READ_EXECUTE, 0, 0, 0]) }.map(drop)
}

/// Reads a part of a file into a buffer; returns how many bytes.
pub(crate) fn read_at(file: i32, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let address = into.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes at most `into.len()` bytes at a buffer held exclusively.
    unsafe { call(SYS_PREAD64, [value(file), address, into.len(), offset as usize, 0, 0]) }
}

/// Reads a part of a file to an address; returns how many bytes.
///
/// # Safety
/// Nothing may hold a reference to the `length` bytes at `address`, and any bytes must be valid
/// there.
pub(crate) unsafe fn read_to(
    file: i32,
    address: usize,
    length: usize,
    offset: u64,
) -> Result<usize, Errno> {
    // SAFETY: the caller vouches for the bytes at `address`.
    unsafe { call(SYS_PREAD64, [value(file), address, length, offset as usize, 0, 0]) }
}

/// A range of pages of one kind, as the kernel tells it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PageRange {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) categories: u64,
}

/// Which pages of a mapping are looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Those that exist and are not the page of zeros.
    Existing,
    /// Those that this process has written to: they are no pages of the mapped file any more.
    Written,
}

/// Finds pages in `start..end` by `PAGEMAP_SCAN` (Linux 6.7). Returns how many ranges it has
/// stored, and where to go on.
pub(crate) fn scan_pages(
    pagemap: i32,
    start: u64,
    end: u64,
    pages: Pages,
    ranges: &mut [PageRange],
) -> Result<(usize, u64), Errno> {
    /// `struct pm_scan_arg`.
    #[repr(C)]
    struct Scan {
        size: u64,
        flags: u64,
        start: u64,
        end: u64,
        walk_end: u64,
        ranges: u64,
        range_count: u64,
        pages_max: u64,
        inverted: u64,
        all_of: u64,
        any_of: u64,
        returned: u64,
    }
    const SYS_IOCTL: usize = 16;
    const PAGEMAP_SCAN: usize = 0xc060_6610;
    const FILE: u64 = 1 << 2;
    const PRESENT: u64 = 1 << 3;
    const SWAPPED: u64 = 1 << 4;
    const ZERO: u64 = 1 << 5;
    let not = match pages {
        Pages::Existing => ZERO,
        Pages::Written => FILE,
    };
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        flags: 0,
        start,
        end,
        walk_end: 0,
        ranges: ranges.as_mut_ptr().expose_provenance() as u64,
        range_count: ranges.len() as u64,
        pages_max: 0,
        inverted: not,
        all_of: not,
        any_of: PRESENT | SWAPPED,
        returned: PRESENT,
    };
    let at = core::ptr::from_mut(&mut scan).expose_provenance();
    // SAFETY: the structure has the layout and the size that it says; the kernel writes to it and
    // to at most `ranges.len()` ranges, both held exclusively.
    let count = unsafe { call(SYS_IOCTL, [value(pagemap), PAGEMAP_SCAN, at, 0, 0, 0]) }?;
    Ok((count.min(ranges.len()), scan.walk_end))
}
