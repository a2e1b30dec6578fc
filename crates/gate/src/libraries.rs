//! Moves a zygote's libraries into one file in memory, so that a fork has less to copy.
//!
//! The loader maps each library in five or six pieces and writes into two of them. A fork copies
//! the description of every piece, and the page table entries of every piece that was written to. A
//! template with pandas has a hundred and forty libraries, which made half of the cost of a fork
//! and of the exit of its child. Here each library becomes two private mappings of a sealed file:
//! one to read and execute, one to write. Since no page of the new mappings has been written to, a
//! fork copies none.
//!
//! All that is only read becomes executable. Code in a sandbox may execute anything in its own
//! process anyway; still no page is writable and executable at once.

use core::ffi::{CStr, c_char, c_void};

use crate::sys::{self, EINVAL, Errno};

/// The most pieces that are moved; the others stay where the loader put them.
const RUNS_MAX: usize = 1024;
/// A piece that is only read and at least this long stays a mapping of its own file: there are few,
/// and the memory of a copy would cost more than the time it saves.
const LARGE: usize = 1 << 20;
const PAGE: usize = 4096;

const PT_LOAD: u32 = 1;
const PT_GNU_RELRO: u32 = 0x6474_e552;
const PF_W: u32 = 2;
const PF_R: u32 = 4;

/// `Elf64_Phdr`.
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical_address: u64,
    file_size: u64,
    memory_size: u64,
    alignment: u64,
}

/// The first fields of `struct dl_phdr_info`.
#[repr(C)]
pub struct Library {
    base: usize,
    name: *const c_char,
    segments: *const Segment,
    segment_count: u16,
}

/// The C library's `dl_iterate_phdr`.
pub type EachLibrary = unsafe extern "C" fn(
    unsafe extern "C" fn(*const Library, usize, *mut c_void) -> i32,
    *mut c_void,
) -> i32;

/// Neighbouring pages of one library with one kind of access.
#[derive(Clone, Copy, Default)]
struct Run {
    start: usize,
    end: usize,
    writable: bool,
}

struct Runs {
    all: [Run; RUNS_MAX],
    count: usize,
}

impl Runs {
    /// Adds pages, to the last run if they continue it.
    fn push(&mut self, run: Run) {
        if run.start >= run.end || (!run.writable && run.end - run.start >= LARGE) {
            return;
        }
        if let Some(last) = self.all[..self.count].last_mut()
            && last.end == run.start
            && last.writable == run.writable
        {
            last.end = run.end;
        } else if self.count < RUNS_MAX {
            self.all[self.count] = run;
            self.count += 1;
        }
    }
}

/// Moves all libraries. Returns how many pieces were moved, or a negative error number; what could
/// not be moved stays where it was and works as before.
///
/// # Safety
/// `each` must be `dl_iterate_phdr`, and this process must have one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_gather_libraries(each: EachLibrary) -> i32 {
    let mut runs = Runs { all: [Run::default(); RUNS_MAX], count: 0 };
    // SAFETY: the callback takes what this function passes: a library, and the pointer to the runs,
    // which are live and held exclusively.
    unsafe { each(add_library, (&raw mut runs).cast()) };
    match gather(&runs.all[..runs.count]) {
        Ok(()) => runs.count as i32,
        Err(Errno(number)) => -number,
    }
}

/// # Safety
/// As `dl_iterate_phdr` calls it, with a pointer to `Runs` held exclusively.
unsafe extern "C" fn add_library(library: *const Library, _size: usize, runs: *mut c_void) -> i32 {
    // SAFETY: the loader passes a live `struct dl_phdr_info`, of which `Library` is the beginning.
    let library = unsafe { &*library };
    // SAFETY: the caller vouches that it points to `Runs` held exclusively.
    let runs = unsafe { &mut *runs.cast::<Runs>() };
    // SAFETY: the loader's names are live strings that end in a zero byte.
    let name = unsafe { CStr::from_ptr(library.name) };
    // The program itself has no name, and the kernel's own pages have no path.
    if name.to_bytes().starts_with(b"/") {
        // SAFETY: the loader's table of segments is live and has as many as its count says.
        let segments = unsafe {
            core::slice::from_raw_parts(library.segments, usize::from(library.segment_count))
        };
        add_segments(library.base, segments, runs);
    }
    0
}

fn add_segments(base: usize, segments: &[Segment], runs: &mut Runs) {
    let span = |segment: &Segment| {
        let start = base + segment.address as usize;
        (start, start + segment.memory_size as usize)
    };
    let down = |address: usize| address / PAGE * PAGE;
    // What the loader writes to and then protects, in whole pages.
    let relro = segments.iter().find(|segment| segment.kind == PT_GNU_RELRO).map(span);
    let (locked_start, locked_end) = relro.map_or((0, 0), |(start, end)| (down(start), down(end)));
    let mut before = 0;
    for segment in segments.iter().filter(|segment| segment.kind == PT_LOAD) {
        let (start, end) = span(segment);
        let start = down(start);
        let end = end.next_multiple_of(PAGE);
        // No linker in use makes segments that share a page or cannot be read; such a library
        // stays.
        if start < before || segment.flags & PF_R == 0 {
            return;
        }
        before = end;
        if segment.flags & PF_W == 0 {
            runs.push(Run { start, end, writable: false });
            continue;
        }
        let from = locked_start.clamp(start, end);
        let to = locked_end.clamp(start, end);
        runs.push(Run { start, end: from, writable: true });
        runs.push(Run { start: from, end: to, writable: false });
        runs.push(Run { start: to.max(from), end, writable: true });
    }
}

fn gather(runs: &[Run]) -> Result<(), Errno> {
    let file = sys::memory_file(c"silica-libraries")?;
    let moved = gather_into(file, runs);
    // No descriptor of it is left after the close; the seals hold even if one could be made again.
    let _ = sys::seal(file);
    sys::close(file);
    moved
}

fn gather_into(file: i32, runs: &[Run]) -> Result<(), Errno> {
    let mut offset = 0;
    for run in runs {
        let length = run.end - run.start;
        sys::set_length(file, offset + length)?;
        copy(file, run, offset)?;
        let copied = sys::map_file(file, offset, length, run.writable)?;
        // SAFETY: nothing else knows of `copied`. The pages hold the same bytes as those they
        // replace: in this process of one thread nothing but the calls above has run since those
        // were read, and they write to no library. What was writable stays writable, what was
        // executable executable.
        unsafe { sys::move_mapping(copied, length, run.start) }?;
        offset += length;
    }
    Ok(())
}

fn copy(file: i32, run: &Run, offset: usize) -> Result<(), Errno> {
    let mut done = 0;
    while run.start + done < run.end {
        // SAFETY: this process has one thread, so nothing writes to these pages during the call.
        let written = unsafe {
            sys::write_at(file, run.start + done, run.end - run.start - done, offset + done)
        }?;
        if written == 0 {
            return Err(EINVAL);
        }
        done += written;
    }
    Ok(())
}
