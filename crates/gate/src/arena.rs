//! Where a zygote's interpreter keeps its objects: one stretch of memory and not a hundred pieces.
//!
//! CPython takes its memory a mebibyte at a time, and the kernel puts each one wherever there is a gap
//! between the libraries. Side by side they can be moved onto huge pages, which a fork copies by the
//! entry and an exit gives back by the entry. Only the addresses are reserved here; a piece becomes
//! memory when it is taken. What does not fit is taken from the kernel as CPython itself would.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::sys::{self, Errno};

/// What CPython asks for at a time, since 3.10.
const PIECE: usize = 1 << 20;
/// Pieces in the stretch: more than the largest template fills, and a child's own beginnings.
const PIECES: usize = 256;
/// A huge page, to which the stretch is aligned.
const HUGE_PAGE: usize = 2 << 20;
const WORD_BITS: usize = u64::BITS as usize;

/// Where the stretch begins; 0 as long as there is none.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// A bit for each piece that is taken. Each child has a copy of its own, like the memory.
static TAKEN: [AtomicU64; PIECES / WORD_BITS] = [const { AtomicU64::new(0) }; PIECES / WORD_BITS];

/// Reserves the stretch. Returns 0, or a negative error number if the kernel has no such gap.
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
            // SAFETY: the caller vouches that nobody uses them. They are zeros when taken again.
            let _ = unsafe { sys::discard(address, size) };
            let (word, bit) = (piece / WORD_BITS, piece % WORD_BITS);
            TAKEN[word].fetch_and(!(1 << bit), Ordering::Relaxed);
        }
        None => {
            // SAFETY: as above. If the kernel refuses, the memory stays, unused.
            let _ = unsafe { sys::unmap(address, size) };
        }
    }
}

fn piece_at(address: usize) -> Option<usize> {
    let base = BASE.load(Ordering::Relaxed);
    let piece = address.checked_sub(base)? / PIECE;
    (base != 0 && piece < PIECES).then_some(piece)
}

/// The lowest free piece, so that what is taken stays together.
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
                    // A piece that cannot be made memory stays taken, so that it is not tried again.
                    return sys::make_writable(address, PIECE).ok().map(|()| address);
                }
                Err(now) => taken = now,
            }
        }
    }
    None
}
