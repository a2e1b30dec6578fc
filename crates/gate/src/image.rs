//! Images: a locked-in interpreter writes itself into a file, and another one becomes it.
//!
//! Both sides are guests. The writer is a fork of the interpreter that it carries, and writes its
//! own memory with calls that every guest has (`write`). The reader is a new process that has gone
//! through all steps of entering before it reads a byte: it replaces its memory by that of the
//! image and goes on where the writer was (`turn`, `plan`). So a forged image can do only what its
//! code could do anyway. The host passes the file on and never reads it.
//!
//! An image holds a header, the contents of memory, and tables of areas, pieces and paths. Memory
//! that is a private mapping of a file which the reader has mapped as well, or can open by its
//! path, is not carried; the pages that the writer has changed there are, as pieces.
//!
//! Tests: `tests/it/engine/branching.rs`.

mod life;
mod maps;
mod plan;
mod turn;
mod write;

pub use life::Carrier;
pub(crate) use turn::become_image;
pub use turn::silica_image_become;
pub use write::silica_image_write;

/// Marks a file as an image of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"silica\0\x01");

const PAGE: u64 = 4096;

/// The end of the addresses that a process can map.
const ADDRESSES_END: u64 = 0x7fff_ffff_f000;

/// The most areas, pieces and bytes of paths of one image.
const AREAS_MAX: usize = 32 * 1024;
const PIECES_MAX: usize = 32 * 1024;
const PATHS_BYTES_MAX: usize = 1 << 20;

/// The first page of an image.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Header {
    magic: u64,
    /// Where the tables begin: areas, then pieces, then paths.
    tables: u64,
    area_count: u64,
    piece_count: u64,
    path_bytes: u64,
    /// The instruction and the stack with which the image goes on.
    resume: u64,
    stack: u64,
    /// The base of the segment register fs.
    thread_block: u64,
    /// The heap that `brk` moves the end of.
    heap_start: u64,
    heap_end: u64,
    /// The pages that the running kernel maps into every process, its code among them, and a
    /// digest of that code.
    kernel_start: u64,
    kernel_end: u64,
    kernel_code: u64,
    kernel_digest: u64,
}

/// Where the contents of an area come from.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Source {
    /// Zeros.
    Zeros = 0,
    /// The image, at the area's offset.
    Image = 1,
    /// The image; the area grows downwards.
    Stack = 2,
    /// A file, at the area's offset: one that the reader has mapped at the same place, or else the
    /// one with the area's path.
    File = 3,
}

/// A range of addresses.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Area {
    start: u64,
    end: u64,
    offset: u64,
    /// What the file is known by in the same boot of the host; 0 if only its path counts.
    device: u64,
    inode: u64,
    /// The path among the image's; empty if the file cannot be opened by one.
    path: u32,
    path_length: u32,
    protection: u32,
    source: u32,
}

/// Pages of a file's area that the writer has changed.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Piece {
    start: u64,
    end: u64,
    offset: u64,
    protection: u64,
}

/// The tables of an image, in memory of their own. All of it is integers, so zeros are a value.
#[repr(C)]
struct Tables {
    header: Header,
    maps: maps::Maps,
    areas: [Area; AREAS_MAX],
    pieces: [Piece; PIECES_MAX],
    paths: [u8; PATHS_BYTES_MAX],
    ranges: [crate::sys::PageRange; RANGES],
}

/// How many ranges of pages are asked for at once.
const RANGES: usize = 512;

impl Tables {
    /// Maps empty tables; pages of them become memory when they are used.
    fn map() -> Result<&'static mut Self, crate::sys::Errno> {
        let address = crate::sys::map_apart(size_of::<Self>())?;
        let tables: *mut Self = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the kernel has just mapped as many bytes of zeros there, page-aligned; nothing
        // else knows of them, and they are never unmapped while this process runs this code.
        Ok(unsafe { &mut *tables })
    }

    fn area_list(&self) -> &[Area] {
        &self.areas[..(self.header.area_count as usize).min(AREAS_MAX)]
    }

    fn piece_list(&self) -> &[Piece] {
        &self.pieces[..(self.header.piece_count as usize).min(PIECES_MAX)]
    }

    /// Returns the path of an area; it ends in a zero byte, or is empty.
    fn path(&self, area: &Area) -> &[u8] {
        let start = area.path as usize;
        let end = start.saturating_add(area.path_length as usize);
        self.paths.get(start..end).unwrap_or_default()
    }
}

/// The bytes of a value that consists of integers without gaps.
fn bytes_of<T: Copy>(values: &[T]) -> &[u8] {
    let length = size_of_val(values);
    // SAFETY: called only for the structures above and for slices of them, in which every byte is
    // a part of an integer; the slice covers exactly the borrowed values.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast(), length) }
}

fn bytes_of_mut<T: Copy>(values: &mut [T]) -> &mut [u8] {
    let length = size_of_val(values);
    // SAFETY: called only for the structures above and for slices of them: any bytes are a value,
    // and the slice covers exactly what is borrowed exclusively.
    unsafe { core::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), length) }
}

const _: () = assert!(size_of::<Header>() == 14 * 8 && size_of::<Area>() == 56);
const _: () = assert!(size_of::<Piece>() == 32);
