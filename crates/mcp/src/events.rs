//! Server-sent events of the native API, read from a response as it arrives.

use serde_json::Value;

/// The longest event: a result in base 64, and room for its other forms.
const EVENT_BYTES_MAX: usize = 96 << 20;

/// Why bytes are not events of the native API.
#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    /// An event is longer than any of them.
    #[error("the server sent an event of more than {EVENT_BYTES_MAX} bytes")]
    TooLong,
    /// It is not UTF-8.
    #[error("the server sent an event that is not text")]
    Text(#[source] std::string::FromUtf8Error),
    /// Its data is not JSON.
    #[error("the server sent an event that is not JSON")]
    Json(#[source] serde_json::Error),
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerEvent {
    /// What happened.
    pub name: String,
    /// What it happened to.
    pub data: Value,
}

/// Cuts bytes into events.
#[derive(Debug, Default)]
pub struct EventReader {
    buffer: Vec<u8>,
    /// How much of the buffer is known to hold no end of an event.
    searched: usize,
}

impl EventReader {
    /// Takes bytes of the response.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), EventsError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() > EVENT_BYTES_MAX {
            return Err(EventsError::TooLong);
        }
        Ok(())
    }

    /// Returns the next whole event; comments are skipped.
    pub fn next_event(&mut self) -> Result<Option<ServerEvent>, EventsError> {
        loop {
            let from = self.searched.saturating_sub(1);
            let Some(at) = self.buffer[from..].windows(2).position(|pair| pair == b"\n\n") else {
                self.searched = self.buffer.len();
                return Ok(None);
            };
            let rest = self.buffer.split_off(from + at + 2);
            let event = std::mem::replace(&mut self.buffer, rest);
            self.searched = 0;
            let text = String::from_utf8(event).map_err(EventsError::Text)?;
            if let Some(event) = parse(&text)? {
                return Ok(Some(event));
            }
        }
    }
}

fn parse(text: &str) -> Result<Option<ServerEvent>, EventsError> {
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
    let data = serde_json::from_str(&data).map_err(EventsError::Json)?;
    Ok(Some(ServerEvent { name, data }))
}

#[cfg(test)]
mod tests;
