//! The memory in which a zygote's interpreter keeps its objects: one range instead of a hundred
//! pieces.
//!
//! CPython allocates arenas of one mebibyte, and the kernel puts each into whatever gap there is
//! between the libraries. Side by side they can be moved onto huge pages; a fork copies, and an
//! exit frees, a huge page by one entry of the page table instead of 512. Only addresses are
//! reserved here; a piece becomes memory when it is allocated. Arenas that do not fit into the
//! range are mapped on their own, as CPython itself would do.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sys::{self, Errno};

/// The size of CPython's arenas, since 3.10.
const PIECE: usize = 1 << 20;
/// Pieces in the range: more than the largest template fills, with room for what a child allocates.
const PIECES: usize = 256;
/// The size of a huge page, to which the range is aligned.
const HUGE_PAGE: usize = 2 << 20;
const WORD_BITS: usize = u64::BITS as usize;

/// The address of the range; 0 until it is reserved.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// One bit for each allocated piece. A fork copies it along with the memory.
static TAKEN: [AtomicU64; PIECES / WORD_BITS] = [const { AtomicU64::new(0) }; PIECES / WORD_BITS];

/// Reserves the range. Returns 0, or a negative error number if there is no gap of that size.
#[unsafe(no_mangle)]
pub extern "C" fn silica_arena_reserve() -> i32 {
    match sys::reserve(PIECES * PIECE + HUGE_PAGE) {
        Ok(start) => {
            BASE.store(start.next_multiple_of(HUGE_PAGE), Ordering::Relaxed);
            0
        }
        Err(Errno(number)) => -number,
    }
}

/// CPython's `alloc` of an arena: returns the address of `size` bytes of zeros, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn silica_arena_alloc(_context: usize, size: usize) -> usize {
    let piece = if size == PIECE { take_piece() } else { None };
    piece.or_else(|| sys::map(size).ok()).unwrap_or(0)
}

/// CPython's `free` of an arena.
///
/// # Safety
/// Nothing may use the `size` bytes at `address` any more, and they must be all of an arena.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_arena_free(_context: usize, address: usize, size: usize) {
    match piece_at(address) {
        Some(piece) => {
            // SAFETY: the caller vouches that nothing uses these bytes. They read as zeros when the
            // piece is allocated again.
            let _ = unsafe { sys::discard(address, size) };
            TAKEN[piece / WORD_BITS].fetch_and(!(1 << (piece % WORD_BITS)), Ordering::Relaxed);
        }
        None => {
            // SAFETY: the caller vouches that nothing uses these bytes. If the kernel refuses, they
            // stay mapped and unused.
            let _ = unsafe { sys::unmap(address, size) };
        }
    }
}

fn piece_at(address: usize) -> Option<usize> {
    let base = BASE.load(Ordering::Relaxed);
    let piece = address.checked_sub(base)? / PIECE;
    (base != 0 && piece < PIECES).then_some(piece)
}

/// Allocates the lowest free piece, so that allocated pieces stay together.
fn take_piece() -> Option<usize> {
    let base = BASE.load(Ordering::Relaxed);
    if base == 0 {
        return None;
    }
    for (index, word) in TAKEN.iter().enumerate() {
        let mut taken = word.load(Ordering::Relaxed);
        while taken != u64::MAX {
            let bit = taken.trailing_ones();
            match word.compare_exchange(
                taken,
                taken | 1 << bit,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    let address = base + (index * WORD_BITS + bit as usize) * PIECE;
                    // SAFETY: the piece is a part of the range that `silica_arena_reserve`
                    // reserved.
                    let made = unsafe { sys::make_writable(address, PIECE) };
                    // A piece that cannot be made memory stays marked, so that it is not tried
                    // again.
                    return made.ok().map(|()| address);
                }
                Err(now) => taken = now,
            }
        }
    }
    None
}
