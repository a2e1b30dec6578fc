//! Writing an image: the caller's own memory, found in /proc/self/maps and /proc/self/pagemap.

use core::arch::naked_asm;

use super::life::{self, Carrier};
use super::maps::{Mapping, TOO_MANY};
use super::{
    AREAS_MAX, Area, Header, MAGIC, PAGE, PATHS_BYTES_MAX, PIECES_MAX, Piece, RANGES, Source,
    Tables, bytes_of,
};
use crate::sys::{self, EINVAL, Errno, PageRange, Pages};

/// Pages that are closer to each other than this are carried as one, with what is between them:
/// every range costs the reader a mapping.
const GAP_BYTES: u64 = 16 * PAGE;

/// How much is copied at a time where files must not be written (`RLIMIT_FSIZE`).
const WINDOW_BYTES: u64 = 4 << 20;

/// How much of a file is compared at a time.
const COMPARED_BYTES: usize = 16 * 1024;

/// The directories of a sandbox that hold files of the guest.
const WRITABLE: [&[u8]; 4] = [b"/workspace/", b"/home/user/", b"/tmp/", b"/dev/shm/"];

/// The files in which a zygote keeps memory for its children; all of its children map them.
const OF_ZYGOTE: &[u8] = b"/memfd:silica-";

/// Which memory is left out of an image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// What another child of the same zygote has mapped as well.
    SameZygote,
    /// Only what any process of the same template can read from a file by its path.
    AnyZygote,
}

/// Writes this process into the file `image`. Returns 0 when it is written, or a negative error
/// number. Returns a positive number in the process that has become the image, which goes on from
/// here with this process's memory. With `any_zygote` not 0 the image needs no process of the same
/// zygote to become it, and is larger.
///
/// # Safety
/// This process must have one thread, and `carrier` must describe its C library.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn silica_image_write(
    image: i32,
    any_zygote: u32,
    carrier: *const Carrier,
) -> i64 {
    // What the callee saves is pushed here, so that the process that has become the image finds it
    // on its stack. With six words, the words of state and the return address the stack is aligned
    // to 16 bytes at both calls.
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov rcx, rsp",
        "lea r8, [rip + 2f]",
        "call {write}",
        "jmp 3f",
        "2:",
        "mov rdi, rax",
        "call {go_on}",
        "3:",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        write = sym write_here,
        go_on = sym go_on,
    )
}

/// # Safety
/// As `silica_image_write`, which alone calls it.
unsafe extern "C" fn write_here(
    image: i32,
    any_zygote: u32,
    carrier: *const Carrier,
    stack: u64,
    resume: u64,
) -> i64 {
    // SAFETY: the caller vouches that it points to a carrier.
    let carrier = unsafe { *carrier };
    let reach = if any_zygote == 0 { Reach::SameZygote } else { Reach::AnyZygote };
    match write(image, reach, &carrier, stack, resume) {
        Ok(()) => 0,
        Err(Errno(number)) => -i64::from(number),
    }
}

/// Where the process that has become the image goes on; `plan` is the memory of its plan, whose
/// size is its first word.
extern "C" fn go_on(plan: u64) -> i64 {
    let size: *const u64 = core::ptr::with_exposed_provenance(plan as usize);
    // SAFETY: the reader's plan is mapped there and begins with its size.
    let size = unsafe { size.read() };
    // SAFETY: the plan has been carried out; nothing runs from it or reads it any more.
    let _ = unsafe { sys::unmap(plan as usize, size as usize) };
    match life::take_up() {
        Ok(()) => 1,
        Err(Errno(number)) => -i64::from(number),
    }
}

fn write(
    image: i32,
    reach: Reach,
    carrier: &Carrier,
    stack: u64,
    resume: u64,
) -> Result<(), Errno> {
    const RLIMIT_FSIZE: u32 = 1;
    let place = life::keep(carrier)?;
    let tables = Tables::map()?;
    let own = core::ptr::from_ref(tables).addr() as u64;
    tables.maps.read()?;
    let (soft, _) = sys::rlimit(RLIMIT_FSIZE)?;
    tables.header = Header {
        magic: MAGIC,
        resume,
        stack,
        thread_block: place.thread_block,
        heap_end: place.heap_end,
        ..Header::default()
    };
    let pagemap = sys::open(c"/proc/self/pagemap", sys::O_RDONLY)?;
    let memory = sys::open(c"/proc/self/mem", sys::O_RDONLY)?;
    let mut writer =
        Writer { image, reach, pagemap, memory, end: PAGE, file_bytes_max: soft, tables };
    for index in 0..writer.tables.maps.list().len() {
        let mapping = writer.tables.maps.list()[index];
        if mapping.start != own {
            writer.add(&mapping)?;
        }
    }
    writer.finish()
}

struct Writer<'a> {
    image: i32,
    reach: Reach,
    pagemap: i32,
    /// The memory of this process as a file.
    memory: i32,
    /// Where the next contents go; a multiple of the page size.
    end: u64,
    file_bytes_max: u64,
    tables: &'a mut Tables,
}

impl Writer<'_> {
    fn add(&mut self, mapping: &Mapping) -> Result<(), Errno> {
        if self.tables.maps.is_of_kernel(mapping) {
            return self.add_of_kernel(mapping);
        }
        let name = self.tables.maps.name(mapping);
        if name.starts_with(b"[stack") {
            return self.add_stack(mapping);
        }
        if name == b"[heap]" && self.tables.header.heap_start == 0 {
            self.tables.header.heap_start = mapping.start;
        }
        if mapping.inode == 0 {
            return self.add_anonymous(mapping);
        }
        if mapping.shared == 1 && mapping.protection & 2 != 0 {
            return self.add_whole(mapping);
        }
        match self.path_of(mapping)? {
            Some((path, path_length)) => self.add_file(mapping, path, path_length),
            None => self.add_whole(mapping),
        }
    }

    fn add_of_kernel(&mut self, mapping: &Mapping) -> Result<(), Errno> {
        if mapping.end > super::ADDRESSES_END {
            return Ok(()); // The page of old system calls, at one address in every process.
        }
        let is_code = self.tables.maps.name(mapping) == b"[vdso]";
        let header = &mut self.tables.header;
        if header.kernel_start == 0 {
            header.kernel_start = mapping.start;
        }
        header.kernel_end = mapping.end;
        if is_code {
            header.kernel_code = mapping.start;
            header.kernel_digest = digest(mapping.start, mapping.end);
        }
        Ok(())
    }

    /// Adds an area without a file: the pages that exist, and zeros between them.
    fn add_anonymous(&mut self, mapping: &Mapping) -> Result<(), Errno> {
        let mut at = mapping.start;
        let mut next = self.next_run(mapping, at, Pages::Existing)?;
        if next.is_some() && mapping.protection & 1 == 0 {
            // SAFETY: the kernel has just listed the range with this protection.
            unsafe {
                sys::make_readable(
                    mapping.start as usize,
                    (mapping.end - mapping.start) as usize,
                    mapping.protection,
                )
            }?;
        }
        while let Some((start, end)) = next {
            self.push_area(mapping, at, start, Source::Zeros, 0)?;
            let offset = self.write_memory(start, end)?;
            self.push_area(mapping, start, end, Source::Image, offset)?;
            at = end;
            next = self.next_run(mapping, at, Pages::Existing)?;
        }
        self.push_area(mapping, at, mapping.end, Source::Zeros, 0)
    }

    fn add_stack(&mut self, mapping: &Mapping) -> Result<(), Errno> {
        let offset = self.write_memory(mapping.start, mapping.end)?;
        self.push_area(mapping, mapping.start, mapping.end, Source::Stack, offset)
    }

    /// Adds all of an area, whatever is behind it.
    fn add_whole(&mut self, mapping: &Mapping) -> Result<(), Errno> {
        if mapping.protection & 1 == 0 {
            // SAFETY: the kernel has just listed the range with this protection.
            unsafe {
                sys::make_readable(
                    mapping.start as usize,
                    (mapping.end - mapping.start) as usize,
                    mapping.protection,
                )
            }?;
        }
        let offset = self.write_memory(mapping.start, mapping.end)?;
        self.push_area(mapping, mapping.start, mapping.end, Source::Image, offset)
    }

    /// Adds an area of a file, and the pages of it that this process has written to.
    fn add_file(&mut self, mapping: &Mapping, path: u32, path_length: u32) -> Result<(), Errno> {
        let known = self.reach == Reach::SameZygote;
        let area = Area {
            start: mapping.start,
            end: mapping.end,
            offset: mapping.offset,
            device: if known { mapping.device } else { 0 },
            inode: if known { mapping.inode } else { 0 },
            path,
            path_length,
            protection: mapping.protection,
            source: Source::File as u32,
        };
        self.store_area(area)?;
        let mut at = mapping.start;
        while let Some((start, end)) = self.next_run(mapping, at, Pages::Written)? {
            let offset = self.write_memory(start, end)?;
            let index = self.tables.header.piece_count as usize;
            if index == PIECES_MAX {
                return Err(TOO_MANY);
            }
            let protection = u64::from(mapping.protection);
            self.tables.pieces[index] = Piece { start, end, offset, protection };
            self.tables.header.piece_count += 1;
            at = end;
        }
        Ok(())
    }

    /// Returns the path by which the reader finds the file of a mapping, or an empty one if the
    /// reader has the mapping itself; `None` if the contents have to be carried.
    fn path_of(&mut self, mapping: &Mapping) -> Result<Option<(u32, u32)>, Errno> {
        let name = self.tables.maps.name(mapping);
        if name.starts_with(OF_ZYGOTE) {
            return Ok((self.reach == Reach::SameZygote).then_some((0, 0)));
        }
        // What the kernel escapes or marks as deleted cannot be opened by that name.
        let is_plain = name.starts_with(b"/")
            && !name.contains(&b'\\')
            && !name.ends_with(b" (deleted)")
            && !WRITABLE.iter().any(|place| name.starts_with(place));
        if !is_plain || mapping.protection & 1 == 0 {
            return Ok(None);
        }
        let start = self.tables.header.path_bytes as usize;
        let length = name.len() + 1;
        if start + length > PATHS_BYTES_MAX {
            return Err(TOO_MANY);
        }
        let Tables { maps, paths, .. } = &mut *self.tables;
        let target = &mut paths[start..start + length];
        target[..length - 1].copy_from_slice(maps.name(mapping));
        target[length - 1] = 0;
        if self.reach == Reach::AnyZygote && !self.is_equal_to_file(mapping, start) {
            return Ok(None);
        }
        self.tables.header.path_bytes += length as u64;
        Ok(Some((start as u32, length as u32)))
    }

    /// Whether the file with the path at `path` holds what this process sees in a mapping that it
    /// has not written to. The mapping may come from a zygote, whose paths mean other files here.
    fn is_equal_to_file(&mut self, mapping: &Mapping, path: usize) -> bool {
        if !matches!(self.next_run(mapping, mapping.start, Pages::Written), Ok(None)) {
            return false;
        }
        let Ok(path) = core::ffi::CStr::from_bytes_until_nul(&self.tables.paths[path..]) else {
            return false;
        };
        let Ok(file) = sys::open(path, sys::O_RDONLY) else { return false };
        let length = mapping.end - mapping.start;
        let is_long_enough = sys::file_length(file)
            .is_ok_and(|bytes| bytes.next_multiple_of(PAGE) >= mapping.offset + length);
        let is_equal = is_long_enough && equals(file, mapping);
        sys::close(file);
        is_equal
    }

    /// Returns the next run of pages from `at` on; runs that are close to each other are one.
    fn next_run(
        &mut self,
        mapping: &Mapping,
        at: u64,
        pages: Pages,
    ) -> Result<Option<(u64, u64)>, Errno> {
        let mut run: Option<(u64, u64)> = None;
        let mut at = at;
        while at < mapping.end {
            let (count, walked) = self.scan(at, mapping.end, pages)?;
            for range in &self.tables.ranges[..count] {
                match &mut run {
                    Some((_, end)) if range.start <= *end + GAP_BYTES => *end = range.end,
                    Some(run) => return Ok(Some(*run)),
                    None => run = Some((range.start, range.end)),
                }
            }
            // The kernel stops early only if there is no more room for ranges.
            if walked <= at {
                break;
            }
            at = walked;
        }
        Ok(run)
    }

    fn scan(&mut self, at: u64, end: u64, pages: Pages) -> Result<(usize, u64), Errno> {
        const ENOTTY: Errno = Errno(25);
        match sys::scan_pages(self.pagemap, at, end, pages, &mut self.tables.ranges) {
            // Before Linux 6.7.
            Err(ENOTTY) => self.scan_by_reading(at, end, pages),
            scanned => scanned,
        }
    }

    /// Finds pages in what /proc/self/pagemap says of each: bit 63 is set if it exists, 62 if it
    /// is swapped out, 61 if it belongs to a file.
    fn scan_by_reading(&mut self, at: u64, end: u64, pages: Pages) -> Result<(usize, u64), Errno> {
        let mut entries = [0_u64; RANGES];
        let wanted = ((end - at) / PAGE).min(entries.len() as u64) as usize;
        let buffer = super::bytes_of_mut(&mut entries[..wanted]);
        let read = sys::read_at(self.pagemap, buffer, at / PAGE * 8)? / 8;
        if read == 0 {
            return Err(EINVAL);
        }
        let mut count = 0_usize;
        for (index, entry) in entries[..read].iter().enumerate() {
            let exists = entry >> 62 & 3 != 0;
            let is_of_file = entry >> 61 & 1 != 0;
            if !exists || (pages == Pages::Written && is_of_file) {
                continue;
            }
            let start = at + index as u64 * PAGE;
            let end = start + PAGE;
            match count.checked_sub(1).map(|last| &mut self.tables.ranges[last]) {
                Some(last) if last.end == start => last.end = end,
                _ => {
                    self.tables.ranges[count] = PageRange { start, end, categories: 0 };
                    count += 1;
                }
            }
        }
        Ok((count, at + read as u64 * PAGE))
    }

    fn push_area(
        &mut self,
        mapping: &Mapping,
        start: u64,
        end: u64,
        source: Source,
        offset: u64,
    ) -> Result<(), Errno> {
        let area = Area {
            start,
            end,
            offset,
            protection: mapping.protection,
            source: source as u32,
            ..Area::default()
        };
        if start < end { self.store_area(area) } else { Ok(()) }
    }

    fn store_area(&mut self, area: Area) -> Result<(), Errno> {
        let index = self.tables.header.area_count as usize;
        if index == AREAS_MAX {
            return Err(TOO_MANY);
        }
        self.tables.areas[index] = area;
        self.tables.header.area_count += 1;
        Ok(())
    }

    /// Writes memory at the end of the image; returns where it is.
    fn write_memory(&mut self, start: u64, end: u64) -> Result<u64, Errno> {
        const EFAULT: Errno = Errno(14);
        let offset = self.end;
        let mut at = start;
        while at < end {
            let target = offset + (at - start);
            match self.write_some(at, end - at, target) {
                Ok(0) => return Err(EINVAL),
                Ok(written) => at += written,
                // Beyond the end of a mapped file there is nothing; the image has zeros there.
                Err(EFAULT | sys::EIO) => at = (at + 1).next_multiple_of(PAGE),
                Err(errno) => return Err(errno),
            }
        }
        self.end = offset + (end - start);
        Ok(offset)
    }

    /// Writes some of the memory at `address`, through the file where its size allows it, and else
    /// through a mapping of the file: the limit of file sizes is not about images. In both cases
    /// the kernel copies, so that memory which cannot be read is an error and not a signal.
    fn write_some(&self, address: u64, length: u64, offset: u64) -> Result<u64, Errno> {
        if offset < self.file_bytes_max {
            let length = length.min(self.file_bytes_max - offset);
            // SAFETY: this process has one thread, so nothing writes to that memory meanwhile.
            let written = unsafe {
                sys::write_at(self.image, address as usize, length as usize, offset as usize)
            };
            return written.map(|written| written as u64);
        }
        let start = offset / PAGE * PAGE;
        let length = length.min(WINDOW_BYTES - (offset - start));
        let size = (offset - start + length).next_multiple_of(PAGE);
        let window = sys::map_to_write(self.image, start as usize, size as usize)?;
        let at = window + (offset - start) as usize;
        // SAFETY: the window is mapped to write, nothing else knows of it, and any bytes are valid
        // there.
        let copied = unsafe { sys::read_to(self.memory, at, length as usize, address) };
        // SAFETY: nothing else knows of the window.
        unsafe { sys::unmap(window, size as usize) }?;
        copied.map(|copied| copied as u64)
    }

    /// Writes the tables, and last the header, which makes the file an image.
    fn finish(&mut self) -> Result<(), Errno> {
        self.tables.header.tables = self.end;
        let Tables { header, areas, pieces, paths, .. } = &*self.tables;
        let mut offset = self.end;
        let parts = [
            bytes_of(&areas[..header.area_count as usize]),
            bytes_of(&pieces[..header.piece_count as usize]),
            &paths[..header.path_bytes as usize],
        ];
        for part in parts {
            self.write_bytes(part, offset)?;
            offset += part.len() as u64;
        }
        self.write_bytes(bytes_of(core::slice::from_ref(header)), 0)
    }

    fn write_bytes(&self, bytes: &[u8], offset: u64) -> Result<(), Errno> {
        let address = bytes.as_ptr().expose_provenance() as u64;
        let mut done = 0;
        while done < bytes.len() as u64 {
            done +=
                match self.write_some(address + done, bytes.len() as u64 - done, offset + done)? {
                    0 => return Err(EINVAL),
                    written => written,
                };
        }
        Ok(())
    }
}

/// Whether a file holds the bytes of a mapping.
fn equals(file: i32, mapping: &Mapping) -> bool {
    let mut buffer = [0_u8; COMPARED_BYTES];
    let mut at = mapping.start;
    while at < mapping.end {
        let length = COMPARED_BYTES.min((mapping.end - at) as usize);
        buffer[..length].fill(0);
        let offset = mapping.offset + (at - mapping.start);
        let Ok(read) = sys::read_at(file, &mut buffer[..length], offset) else { return false };
        // Short at the end of the file, after which the mapping shows zeros up to its last page.
        if read == 0 || buffer[..length] != *memory(at, length) {
            return false;
        }
        at += length as u64;
    }
    true
}

/// Memory of this process that nothing writes to meanwhile.
fn memory(address: u64, length: usize) -> &'static [u8] {
    let start: *const u8 = core::ptr::with_exposed_provenance(address as usize);
    // SAFETY: called for ranges that /proc/self/maps has just listed as readable, in a process of
    // one thread that does not write to them while it looks.
    unsafe { core::slice::from_raw_parts(start, length) }
}

/// A digest of the kernel's code (FNV-1a over words): it differs between builds of a kernel.
pub(super) fn digest(start: u64, end: u64) -> u64 {
    let bytes = memory(start, (end - start) as usize);
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for word in bytes.chunks_exact(8) {
        let word = word.iter().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte));
        digest = (digest ^ word).wrapping_mul(0x0100_0000_01b3);
    }
    digest
}
