//! The head and the tail of a stream without end, in bounded memory.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// What is kept of stdout or stderr.
#[derive(Clone, Debug)]
pub struct HeadTail {
    head: Vec<u8>,
    head_max: usize,
    tail: VecDeque<u8>,
    tail_max: usize,
    total: u64,
}

impl HeadTail {
    /// Keeps at most `bytes_max`: half at the start, half at the end.
    pub fn new(bytes_max: u64) -> Self {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let head_max = bytes_max.div_ceil(2);
        Self {
            // Nothing is reserved: the limit may be 64 MiB, and most cells print a line.
            head: Vec::new(),
            head_max,
            tail: VecDeque::new(),
            tail_max: bytes_max - head_max,
            total: 0,
        }
    }

    /// Takes in a chunk; returns the part of it that still belongs to the head.
    pub fn push<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        self.total += chunk.len() as u64;
        let room = self.head_max - self.head.len();
        let (head, rest) = chunk.split_at(room.min(chunk.len()));
        self.head.extend_from_slice(head);
        // Of one chunk only the last `tail_max` bytes can stay. Room is made before they are added,
        // so the tail never exceeds its bound, not even while it grows.
        let kept = &rest[rest.len().saturating_sub(self.tail_max)..];
        let excess = (self.tail.len() + kept.len()).saturating_sub(self.tail_max);
        self.tail.drain(..excess);
        self.tail.extend(kept);
        head
    }

    /// Returns how many bytes came in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns how many bytes are not kept.
    pub fn left_out(&self) -> u64 {
        self.total - self.head.len() as u64 - self.tail.len() as u64
    }

    /// Returns what follows the head: the mark where bytes were left out, and the tail.
    pub fn rest(&self) -> Vec<u8> {
        let mut rest = match self.left_out() {
            0 => Vec::new(),
            left_out => format!("\n[… {left_out} bytes left out …]\n").into_bytes(),
        };
        rest.extend(&self.tail);
        rest
    }

    /// Returns everything kept, with the mark in its place.
    pub fn into_bytes(self) -> Vec<u8> {
        let rest = self.rest();
        let mut all = self.head;
        all.extend(rest);
        all
    }
}
