//! Becoming an image: reading its tables, checking them, and planning the calls that turn this
//! process into it.
//!
//! This process is locked in: whatever the tables say, it can do no more than the guest could do
//! by itself. They are checked so that a broken image is refused by name and does not crash.

use core::ffi::CStr;

use super::life::{self, Carrier};
use super::maps::{Mapping, TOO_MANY};
use super::plan::Plan;
use super::{
    ADDRESSES_END, AREAS_MAX, Area, MAGIC, PAGE, PATHS_BYTES_MAX, PIECES_MAX, Piece, Source,
    Tables, bytes_of_mut,
};
use crate::sys::{self, EINVAL, Errno};

const SYS_CLOSE: u64 = 3;
const SYS_MMAP: u64 = 9;
const SYS_MUNMAP: u64 = 11;
const SYS_BRK: u64 = 12;
const SYS_PREAD64: u64 = 17;
const SYS_MREMAP: u64 = 25;
const SYS_MADVISE: u64 = 28;
const SYS_ARCH_PRCTL: u64 = 158;
const SYS_OPENAT: u64 = 257;

const MAP_PRIVATE: u64 = 0x2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_GROWSDOWN: u64 = 0x100;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_STACK: u64 = 0x2_0000;
const NO_FILE: u64 = u64::MAX;

/// The descriptor of the image, and the next one that `open` returns.
const IMAGE: i32 = 4;
const OPENED: u64 = 5;

/// The status of a process that could not become its image.
pub(crate) const EXIT_NOT_BECOME: i32 = 124;

/// Where a plan is looked for room: addresses that Linux gives to no program by itself.
const PLAN_BASE: u64 = 0x1000_0000_0000;
const PLAN_STEP: u64 = 0x10_0000_0000;
const PLAN_ATTEMPTS: u64 = 256;

/// Why an image was refused.
#[derive(Clone, Copy)]
pub(crate) enum Refusal {
    /// Its tables cannot be read or contradict themselves.
    Tables,
    /// It was written on a host with another kernel.
    Kernel,
    /// It needs memory that only children of another zygote have.
    Zygote,
    /// A file that it maps is not there.
    File,
    /// The process could not be turned into it.
    Memory,
}

impl Refusal {
    fn name(self) -> &'static str {
        match self {
            Self::Tables => "become-tables",
            Self::Kernel => "become-kernel",
            Self::Zygote => "become-zygote",
            Self::File => "become-file",
            Self::Memory => "become-memory",
        }
    }
}

/// Turns this process, which has entered its enclosure, into the image at descriptor 4. Does not
/// return: the process goes on as the image, or reports why not and ends.
pub(crate) fn become_image(carrier: &Carrier) -> ! {
    let Err((refusal, errno)) = turn(carrier);
    let mut frame = [0; 128];
    let frame = crate::enter::refused_frame(&mut frame, refusal.name(), errno);
    // The host sees the end of the process if this cannot be sent.
    let _ = sys::send(3, frame);
    sys::exit_group(EXIT_NOT_BECOME)
}

/// Turns this process into the image at descriptor 4, like a zygote's child whose request brings
/// one; for tests of a carrier without a zone.
///
/// # Safety
/// This process must have one thread, and `carrier` must describe its C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_image_become(carrier: *const Carrier) -> i32 {
    // SAFETY: the caller vouches that it points to a carrier.
    become_image(unsafe { &*carrier })
}

type Refused<T> = Result<T, (Refusal, Errno)>;

fn because(refusal: Refusal) -> impl Fn(Errno) -> (Refusal, Errno) {
    move |errno| (refusal, errno)
}

fn turn(carrier: &Carrier) -> Refused<core::convert::Infallible> {
    let failed = because(Refusal::Memory);
    let tables = Tables::map().map_err(&failed)?;
    read_tables(tables).map_err(because(Refusal::Tables))?;
    check_tables(tables).map_err(because(Refusal::Tables))?;
    sys::block_signals().map_err(&failed)?;
    life::forget_sequences(carrier).map_err(&failed)?;
    tables.maps.read().map_err(&failed)?;
    let kernel = Kernel::find(tables).ok_or((Refusal::Kernel, EINVAL))?;
    let calls = count_calls(tables);
    let text = tables.header.path_bytes;
    // The kernel's pages are moved aside first: their old place may be where their new one is.
    let aside = kernel.end - kernel.start;
    let size = Plan::size(calls, text);
    let base = find_room(tables, size + aside).ok_or((Refusal::Memory, TOO_MANY))?;
    let plan = Plan::map(base, calls, text).map_err(&failed)?;
    let mut turn = Turn { tables, kernel, plan, aside: base + size };
    turn.fill()?;
    let mut frame = [0; 128];
    let report = crate::enter::refused_frame(&mut frame, Refusal::Memory.name(), EINVAL);
    let Turn { tables, plan, .. } = turn;
    // SAFETY: the calls map what the image had where it had it, and the plan is in room that the
    // image does not use.
    unsafe { plan.carry_out(tables.header.resume, tables.header.stack, report) }.map_err(failed)
}

/// Reads the header and the tables of the image.
fn read_tables(tables: &mut Tables) -> Result<(), Errno> {
    read_all(bytes_of_mut(core::slice::from_mut(&mut tables.header)), 0)?;
    let header = tables.header;
    let fits = header.magic == MAGIC
        && header.area_count <= AREAS_MAX as u64
        && header.piece_count <= PIECES_MAX as u64
        && header.path_bytes <= PATHS_BYTES_MAX as u64;
    if !fits {
        return Err(EINVAL);
    }
    let areas = bytes_of_mut(&mut tables.areas[..header.area_count as usize]);
    read_all(areas, header.tables)?;
    let mut offset = header.tables + areas.len() as u64;
    let pieces = bytes_of_mut(&mut tables.pieces[..header.piece_count as usize]);
    read_all(pieces, offset)?;
    offset += pieces.len() as u64;
    read_all(&mut tables.paths[..header.path_bytes as usize], offset)
}

fn read_all(into: &mut [u8], offset: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < into.len() {
        let at = offset.checked_add(done as u64).ok_or(EINVAL)?;
        match sys::read_at(IMAGE, &mut into[done..], at)? {
            0 => return Err(EINVAL),
            more => done += more,
        }
    }
    Ok(())
}

/// Succeeds if areas and pieces are in order, apart from each other, within the addresses of a
/// process, and within the file.
fn check_tables(tables: &Tables) -> Result<(), Errno> {
    let length = sys::file_length(IMAGE)?;
    let is_page = |number: u64| number.is_multiple_of(PAGE);
    let in_file = |offset: u64, bytes: u64| {
        is_page(offset) && offset.checked_add(bytes).is_some_and(|end| end <= length)
    };
    let mut before = PAGE;
    for area in tables.area_list() {
        let in_order = is_page(area.start)
            && is_page(area.end)
            && before <= area.start
            && area.start < area.end
            && area.end <= ADDRESSES_END;
        let path = tables.path(area);
        let is_path = path.is_empty() || CStr::from_bytes_with_nul(path).is_ok();
        let is_source = match area.source {
            source if source == Source::Zeros as u32 => true,
            source if source == Source::Image as u32 || source == Source::Stack as u32 => {
                in_order && in_file(area.offset, area.end - area.start)
            }
            source if source == Source::File as u32 => is_page(area.offset),
            _ => false,
        };
        if !(in_order && is_path && is_source && area.protection <= 7) {
            return Err(EINVAL);
        }
        before = area.end;
    }
    let mut before = 0;
    for piece in tables.piece_list() {
        let good = is_page(piece.start)
            && is_page(piece.end)
            && before <= piece.start
            && piece.start < piece.end
            && piece.end <= ADDRESSES_END
            && piece.protection <= 7
            && in_file(piece.offset, piece.end - piece.start);
        if !good {
            return Err(EINVAL);
        }
        before = piece.end;
    }
    Ok(())
}

/// The pages that the running kernel maps into every process.
struct Kernel {
    start: u64,
    end: u64,
}

impl Kernel {
    /// Finds them; `None` unless they are those of the image, up to their place.
    fn find(tables: &Tables) -> Option<Self> {
        let header = &tables.header;
        let of_kernel =
            |mapping: &&Mapping| mapping.end <= ADDRESSES_END && tables.maps.is_of_kernel(mapping);
        let mut mappings = tables.maps.list().iter().filter(of_kernel);
        let code = mappings.clone().find(|mapping| tables.maps.name(mapping) == b"[vdso]")?;
        let start = mappings.next()?.start;
        let end = mappings.next_back().map_or(code.end, |last| last.end);
        let is_same = end.checked_sub(start)?
            == header.kernel_end.checked_sub(header.kernel_start)?
            && code.start - start == header.kernel_code.checked_sub(header.kernel_start)?
            && super::write::digest(code.start, code.end) == header.kernel_digest;
        let in_range = header.kernel_start.is_multiple_of(PAGE)
            && header.kernel_start >= PAGE
            && header.kernel_end <= ADDRESSES_END;
        (is_same && in_range).then_some(Self { start, end })
    }
}

/// Returns how many calls a plan has at most: for each area up to three, for each mapping of this
/// process one to remove and two to move it, and a few more.
fn count_calls(tables: &Tables) -> u64 {
    let mappings = tables.maps.list().len() as u64;
    3 * tables.header.area_count + tables.header.piece_count + 3 * mappings + 16
}

/// Finds addresses that neither this process nor the image uses.
fn find_room(tables: &Tables, size: u64) -> Option<u64> {
    let header = &tables.header;
    let is_free = |start: &u64| {
        let end = start + size;
        let apart = |from: u64, to: u64| to <= *start || end <= from;
        tables.area_list().iter().all(|area| apart(area.start, area.end))
            && tables.maps.list().iter().all(|mapping| apart(mapping.start, mapping.end))
            && apart(header.kernel_start, header.kernel_end)
    };
    (0..PLAN_ATTEMPTS).map(|attempt| PLAN_BASE + attempt * PLAN_STEP).find(is_free)
}

struct Turn<'a> {
    tables: &'a Tables,
    kernel: Kernel,
    plan: Plan,
    /// Room for the kernel's pages on their way.
    aside: u64,
}

impl Turn<'_> {
    fn fill(&mut self) -> Refused<()> {
        let failed = because(Refusal::Memory);
        let header = &self.tables.header;
        if self.has_same_heap() {
            // Whether it works or not, `take_up` compares the heap's end with the image's.
            self.plan.call(SYS_BRK, [header.heap_end, 0, 0, 0, 0, 0], 0).map_err(&failed)?;
        }
        self.remove_old().map_err(&failed)?;
        self.move_kernel().map_err(&failed)?;
        for area in self.tables.area_list() {
            self.add_area(area)?;
        }
        for piece in self.tables.piece_list() {
            self.add_piece(piece).map_err(&failed)?;
        }
        const ARCH_SET_FS: u64 = 0x1002;
        let arguments = [ARCH_SET_FS, header.thread_block, 0, 0, 0, 0];
        self.plan.call(SYS_ARCH_PRCTL, arguments, 0).map_err(&failed)?;
        self.plan.call(SYS_CLOSE, [IMAGE as u64, 0, 0, 0, 0, 0], 0).map_err(&failed)
    }

    /// Whether this process's heap begins where the image's does: then both come from one zygote.
    fn has_same_heap(&self) -> bool {
        let maps = &self.tables.maps;
        let heap = maps.list().iter().find(|mapping| maps.name(mapping) == b"[heap]");
        heap.is_some_and(|heap| heap.start == self.tables.header.heap_start)
    }

    /// Removes all memory of this process but what the image keeps and the kernel's own.
    fn remove_old(&mut self) -> Result<(), Errno> {
        for mapping in self.tables.maps.list() {
            if self.tables.maps.is_of_kernel(mapping) {
                continue;
            }
            let mut at = mapping.start;
            for area in areas_in(self.tables, mapping) {
                if is_kept(area, mapping) {
                    self.remove(at, area.start)?;
                    at = area.end;
                }
            }
            self.remove(at, mapping.end)?;
        }
        // The tables of this function's caller are among the mappings: from here on only the plan
        // is there, which was mapped after the list was read.
        Ok(())
    }

    fn remove(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        match start < end {
            true => self.plan.call(SYS_MUNMAP, [start, end - start, 0, 0, 0, 0], 0),
            false => Ok(()),
        }
    }

    /// Moves the kernel's pages to where the image expects them.
    fn move_kernel(&mut self) -> Result<(), Errno> {
        const MAYMOVE_FIXED: u64 = 3;
        let from = self.kernel.start;
        let to = self.tables.header.kernel_start;
        if from == to {
            return Ok(());
        }
        for (from, to) in [(from, self.aside), (self.aside, to)] {
            for mapping in self.tables.maps.list() {
                let is_it = self.kernel.start <= mapping.start && mapping.end <= self.kernel.end;
                if is_it && self.tables.maps.is_of_kernel(mapping) {
                    let length = mapping.end - mapping.start;
                    let at = mapping.start - self.kernel.start;
                    let arguments = [from + at, length, length, MAYMOVE_FIXED, to + at, 0];
                    self.plan.call(SYS_MREMAP, arguments, to + at)?;
                }
            }
        }
        Ok(())
    }

    fn add_area(&mut self, area: &Area) -> Refused<()> {
        let failed = because(Refusal::Memory);
        let protection = u64::from(area.protection);
        let zeros = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE;
        match area.source {
            source if source == Source::Image as u32 => self
                .map(
                    area.start,
                    area.end,
                    protection,
                    MAP_PRIVATE | MAP_FIXED,
                    IMAGE as u64,
                    area.offset,
                )
                .map_err(failed),
            source if source == Source::Stack as u32 => {
                let flags = zeros | MAP_GROWSDOWN | MAP_STACK;
                self.map(area.start, area.end, 3, flags, NO_FILE, 0).map_err(&failed)?;
                let length = area.end - area.start;
                let arguments = [IMAGE as u64, area.start, length, area.offset, 0, 0];
                self.plan.call(SYS_PREAD64, arguments, length).map_err(failed)
            }
            source if source == Source::File as u32 => self.add_file(area),
            _ => self.map(area.start, area.end, protection, zeros, NO_FILE, 0).map_err(failed),
        }
    }

    fn map(
        &mut self,
        start: u64,
        end: u64,
        protection: u64,
        flags: u64,
        file: u64,
        offset: u64,
    ) -> Result<(), Errno> {
        self.plan.call(SYS_MMAP, [start, end - start, protection, flags, file, offset], start)
    }

    /// Keeps the mapping of a file that this process has as well, or maps the file by its path.
    fn add_file(&mut self, area: &Area) -> Refused<()> {
        const MADV_DONTNEED: u64 = 4;
        const WRITABLE: u32 = 2;
        let failed = because(Refusal::Memory);
        if mapping_of(self.tables, area).is_some_and(|mapping| is_kept(area, mapping)) {
            // What this process has written there is not the image's.
            return match area.protection & WRITABLE {
                0 => Ok(()),
                _ => {
                    let arguments = [area.start, area.end - area.start, MADV_DONTNEED, 0, 0, 0];
                    self.plan.call(SYS_MADVISE, arguments, 0).map_err(failed)
                }
            };
        }
        let path = self.tables.path(area);
        let Ok(path) = CStr::from_bytes_with_nul(path) else {
            return Err((Refusal::Zygote, EINVAL));
        };
        // Tried now, while a failure still has a name.
        let opened = sys::open(path, sys::O_RDONLY).map_err(because(Refusal::File))?;
        sys::close(opened);
        const AT_FDCWD: u64 = -100_i64 as u64;
        let path = self.plan.text(path.to_bytes_with_nul()).map_err(&failed)?;
        self.plan.call(SYS_OPENAT, [AT_FDCWD, path, 0, 0, 0, 0], OPENED).map_err(&failed)?;
        let protection = u64::from(area.protection);
        let flags = MAP_PRIVATE | MAP_FIXED;
        self.map(area.start, area.end, protection, flags, OPENED, area.offset).map_err(&failed)?;
        self.plan.call(SYS_CLOSE, [OPENED, 0, 0, 0, 0, 0], 0).map_err(failed)
    }

    fn add_piece(&mut self, piece: &Piece) -> Result<(), Errno> {
        let flags = MAP_PRIVATE | MAP_FIXED;
        self.map(piece.start, piece.end, piece.protection, flags, IMAGE as u64, piece.offset)
    }
}

/// Returns the areas of the image that begin within a mapping of this process.
fn areas_in<'a>(tables: &'a Tables, mapping: &Mapping) -> impl Iterator<Item = &'a Area> {
    let areas = tables.area_list();
    let first = areas.partition_point(|area| area.start < mapping.start);
    let end = mapping.end;
    areas[first..].iter().take_while(move |area| area.start < end)
}

/// Returns the mapping of this process in which an area begins.
fn mapping_of<'a>(tables: &'a Tables, area: &Area) -> Option<&'a Mapping> {
    let mappings = tables.maps.list();
    let after = mappings.partition_point(|mapping| mapping.start <= area.start);
    mappings.get(after.checked_sub(1)?)
}

/// Whether an area shows the same part of the same file as a mapping of this process around it.
fn is_kept(area: &Area, mapping: &Mapping) -> bool {
    area.source == Source::File as u32
        && area.inode != 0
        && area.inode == mapping.inode
        && area.device == mapping.device
        && area.protection == mapping.protection
        && mapping.shared == 0
        && mapping.start <= area.start
        && area.end <= mapping.end
        && area.offset == mapping.offset + (area.start - mapping.start)
}
