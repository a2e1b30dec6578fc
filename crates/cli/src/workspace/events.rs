//! Server-sent events of a cell, read from an answer as it comes.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The longest event: a result in base 64, and room for its other forms.
const EVENT_BYTES_MAX: usize = 96 << 20;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CellEvent {
    pub(super) name: String,
    pub(super) data: Value,
}

/// Cuts bytes into events.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    buffer: Vec<u8>,
    /// How much of the buffer is known to hold no end of an event.
    searched: usize,
}

impl EventReader {
    /// Takes bytes of the answer.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        ensure!(
            self.buffer.len() <= EVENT_BYTES_MAX,
            "the server sent an event of more than {EVENT_BYTES_MAX} bytes"
        );
        Ok(())
    }

    /// Returns the next whole event; comments are skipped.
    pub(super) fn next(&mut self) -> Result<Option<CellEvent>> {
        loop {
            let from = self.searched.saturating_sub(1);
            let Some(at) = self.buffer[from..].windows(2).position(|pair| pair == b"\n\n") else {
                self.searched = self.buffer.len();
                return Ok(None);
            };
            let rest = self.buffer.split_off(from + at + 2);
            let event = std::mem::replace(&mut self.buffer, rest);
            self.searched = 0;
            let text = String::from_utf8(event).context("the server sent an invalid event")?;
            if let Some(event) = parse(&text)? {
                return Ok(Some(event));
            }
        }
    }
}

fn parse(text: &str) -> Result<Option<CellEvent>> {
    let mut name = String::new();
    let mut data = String::new();
    for line in text.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut name),
            "data" => data.push_str(value),
            _ => {}
        }
    }
    if name.is_empty() {
        return Ok(None);
    }
    let data = serde_json::from_str(&data).context("the server sent an invalid event")?;
    Ok(Some(CellEvent { name, data }))
}

#[cfg(test)]
mod tests {
    use super::{CellEvent, EventReader};

    #[test]
    fn events_are_cut_wherever_the_bytes_are() {
        let text =
            b": hello\n\nid: 1\nevent: stdout\ndata: {\"text\":\"a\"}\n\nevent: done\ndata: {}\n\n";
        for size in 1..text.len() {
            let mut reader = EventReader::default();
            let mut events = Vec::new();
            for chunk in text.chunks(size) {
                reader.push(chunk).unwrap();
                while let Some(CellEvent { name, .. }) = reader.next().unwrap() {
                    events.push(name);
                }
            }
            assert_eq!(events, ["stdout", "done"], "{size}");
        }
    }
}
