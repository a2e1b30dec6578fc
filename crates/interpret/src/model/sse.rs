//! Parses server-sent events from an untrusted stream of bytes.
//!
//! Memory is bounded: an event that is too long ends the stream with an error. Bytes that are not UTF-8 are an error
//! too, since both wire formats are JSON.

#[cfg(test)]
mod tests;

use super::ModelError;

/// The longest event, its names and line ends included.
pub(super) const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// One event: its name, empty if it has none, and its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: String,
}

/// An incremental parser.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// Bytes that are not parsed yet; never much longer than one event and one chunk.
    buffer: Vec<u8>,
    /// How many bytes of the buffer are parsed.
    used: usize,
    /// Where the search for the end of the line continues.
    looked: usize,
    event: Event,
    /// Bytes of the event so far.
    size: usize,
    has_data: bool,
    /// Whether the last line ended in a carriage return, of which a line feed may be part.
    after_return: bool,
}

impl Parser {
    /// Adds bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.used);
        self.looked -= self.used;
        self.used = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole event, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Event>, ModelError> {
        while let Some((start, end)) = self.line() {
            self.size += end - start + 1;
            if self.size > EVENT_BYTES_MAX {
                return Err(ModelError::TooLong(EVENT_BYTES_MAX));
            }
            if start == end {
                self.size = 0;
                let event = std::mem::take(&mut self.event);
                if std::mem::take(&mut self.has_data) {
                    return Ok(Some(event));
                }
                continue;
            }
            let Ok(line) = std::str::from_utf8(&self.buffer[start..end]) else {
                return Err(ModelError::Malformed("an event is not UTF-8".to_owned()));
            };
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut self.event.name),
                "data" => {
                    if self.has_data {
                        self.event.data.push('\n');
                    }
                    self.has_data = true;
                    self.event.data.push_str(value);
                }
                // Comments, ids and unknown fields.
                _ => {}
            }
        }
        if self.size + self.buffer.len() - self.used > EVENT_BYTES_MAX {
            return Err(ModelError::TooLong(EVENT_BYTES_MAX));
        }
        Ok(None)
    }

    /// Returns the next whole line, as a range of the buffer without the line end.
    fn line(&mut self) -> Option<(usize, usize)> {
        if self.after_return && self.looked < self.buffer.len() {
            self.after_return = false;
            if self.buffer[self.looked] == b'\n' {
                self.looked += 1;
                self.used = self.looked;
            }
        }
        let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let Some(length) = self.buffer[self.looked..].iter().position(ends) else {
            self.looked = self.buffer.len();
            return None;
        };
        let start = self.used;
        let end = self.looked + length;
        self.after_return = self.buffer[end] == b'\r';
        self.used = end + 1;
        self.looked = end + 1;
        Some((start, end))
    }
}
