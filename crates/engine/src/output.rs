//! What is kept of a stream without end: its head and its tail, in bounded memory; and its bytes as text.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;

/// How much is decoded at a time when a stream is shown as text.
const DECODED_BYTES: usize = 16 * 1024;

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

    /// Returns how many bytes more it would hold after a chunk of this length.
    pub fn growth(&self, chunk: usize) -> usize {
        let room = self.head_max - self.head.len() + self.tail_max - self.tail.len();
        chunk.min(room)
    }

    /// Stops growing: from now on a chunk replaces the tail as far as there is one, and is left out otherwise.
    pub fn seal(&mut self) {
        self.head_max = self.head.len();
        self.tail_max = self.tail.len();
    }

    /// Returns a copy that remembers how much came, and has left out everything.
    #[must_use]
    pub fn without_content(&self) -> Self {
        Self { total: self.total, ..Self::new(0) }
    }

    /// Returns how many bytes came in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns how many bytes are kept.
    pub fn kept(&self) -> u64 {
        self.head.len() as u64 + self.tail.len() as u64
    }

    /// Returns how many bytes are not kept.
    pub fn left_out(&self) -> u64 {
        self.total - self.kept()
    }

    /// Returns everything kept in order, with a mark where bytes were left out.
    pub fn pieces(&self) -> [Cow<'_, [u8]>; 4] {
        let mark = match self.left_out() {
            0 => Vec::new(),
            left_out => format!("\n[… {left_out} bytes left out …]\n").into_bytes(),
        };
        let (first, second) = self.tail.as_slices();
        [self.head.as_slice().into(), mark.into(), first.into(), second.into()]
    }

    /// Returns what follows the head: the mark where bytes were left out, and the tail.
    pub fn rest(&self) -> Vec<u8> {
        self.pieces()[1..].concat()
    }
}

/// Shows everything kept as text. Bytes that are not UTF-8 are replaced.
impl fmt::Display for HeadTail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut decoder = Decoder::default();
        for piece in &self.pieces() {
            for chunk in piece.chunks(DECODED_BYTES) {
                formatter.write_str(&decoder.text(chunk))?;
            }
        }
        formatter.write_str(&decoder.finish())
    }
}

/// Decodes chunks of bytes as UTF-8. A character that is split over two chunks is kept until its rest comes.
#[derive(Debug, Default)]
pub struct Decoder {
    rest: Vec<u8>,
}

impl Decoder {
    /// Returns the text of a chunk; invalid bytes are replaced.
    pub fn text(&mut self, bytes: &[u8]) -> String {
        if self.rest.is_empty()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            return text.to_owned();
        }
        self.rest.extend_from_slice(bytes);
        let cut = incomplete_tail(&self.rest);
        let tail = self.rest.split_off(self.rest.len() - cut);
        let whole = std::mem::replace(&mut self.rest, tail);
        String::from_utf8_lossy(&whole).into_owned()
    }

    /// Returns what is left at the end of the stream.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned()
    }
}

/// Returns how many bytes at the end begin a character that could still be completed.
fn incomplete_tail(bytes: &[u8]) -> usize {
    for length in 1..=bytes.len().min(3) {
        let tail = &bytes[bytes.len() - length..];
        match std::str::from_utf8(tail) {
            Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => return length,
            Ok(_) => return 0,
            Err(_) => {}
        }
    }
    0
}
