//! Counts the tokens of a model's answer, as it passes by.
//!
//! The forms of OpenAI (`usage` with `prompt_tokens` or `input_tokens`) and Anthropic (`usage` in
//! the first and the last event of a message), as one JSON text or as a stream of events. An answer
//! that does not say is estimated from its bytes.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value;

use super::sandbox::Sandbox;
use crate::events::ModelTokens;
use crate::wire::Report;

/// The longest JSON text, or line of a stream, that is read.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How many bytes count as one token where an answer does not say.
const BYTES_PER_TOKEN: u64 = 4;

/// Where the count goes. It is sent once, also if the answer is broken off.
pub(super) struct TokenCount {
    sandbox: Arc<Sandbox>,
    secret: String,
    request_bytes: u64,
    reader: UsageReader,
}

impl TokenCount {
    pub(super) fn new(
        sandbox: &Arc<Sandbox>,
        secret: String,
        request_bytes: u64,
        is_stream: bool,
    ) -> Self {
        let reader = UsageReader::new(is_stream);
        Self { sandbox: Arc::clone(sandbox), secret, request_bytes, reader }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.reader.push(bytes);
    }

    pub(super) fn finish(mut self) {
        self.reader.finish();
    }
}

impl Drop for TokenCount {
    fn drop(&mut self) {
        let counted = self.reader.usage();
        let (prompt, completion) = counted.unwrap_or((
            self.request_bytes.div_ceil(BYTES_PER_TOKEN),
            self.reader.bytes.div_ceil(BYTES_PER_TOKEN),
        ));
        let tokens = ModelTokens {
            secret: std::mem::take(&mut self.secret),
            prompt,
            completion,
            estimated: counted.is_none(),
        };
        let sandbox = self.sandbox.number;
        self.sandbox.world.parent.report(Report::Tokens { sandbox, tokens });
    }
}

/// Finds the numbers in an answer.
struct UsageReader {
    is_stream: bool,
    text: Vec<u8>,
    /// Whether the text or line is longer than what is kept of it.
    overflowed: bool,
    bytes: u64,
    prompt: Option<u64>,
    completion: Option<u64>,
}

impl UsageReader {
    fn new(is_stream: bool) -> Self {
        Self {
            is_stream,
            text: Vec::new(),
            overflowed: false,
            bytes: 0,
            prompt: None,
            completion: None,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if !self.is_stream {
            self.keep(bytes);
            return;
        }
        let mut lines = bytes.split(|&byte| byte == b'\n');
        // The first piece ends the line that was begun; each further one begins a line.
        if let Some(first) = lines.next() {
            self.keep(first);
        }
        for line in lines {
            self.read_line();
            self.keep(line);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.overflowed |= self.text.len() + bytes.len() > TEXT_BYTES_MAX;
        if !self.overflowed {
            self.text.extend_from_slice(bytes);
        }
    }

    fn read_line(&mut self) {
        let line = std::mem::take(&mut self.text);
        let data = line.strip_prefix(b"data:").filter(|_| !self.overflowed);
        self.overflowed = false;
        if let Some(data) = data
            && memchr::memmem::find(data, b"\"usage\"").is_some()
        {
            self.read(data);
        }
    }

    fn finish(&mut self) {
        if self.is_stream {
            self.read_line();
        } else if !self.overflowed {
            let text = std::mem::take(&mut self.text);
            self.read(&text);
        }
    }

    fn read(&mut self, json: &[u8]) {
        let Ok(value) = serde_json::from_slice::<Value>(json) else {
            return;
        };
        let places =
            [value.get("usage"), value.pointer("/message/usage"), value.pointer("/response/usage")];
        for usage in places.into_iter().flatten() {
            let number = |names: [&str; 2]| {
                names.iter().find_map(|name| usage.get(name).and_then(Value::as_u64))
            };
            // A later event repeats or completes an earlier one.
            self.prompt = number(["prompt_tokens", "input_tokens"]).or(self.prompt);
            self.completion = number(["completion_tokens", "output_tokens"]).or(self.completion);
        }
    }

    fn usage(&self) -> Option<(u64, u64)> {
        match (self.prompt, self.completion) {
            (None, None) => None,
            (prompt, completion) => Some((prompt.unwrap_or(0), completion.unwrap_or(0))),
        }
    }
}
