//! Output and results as JSON values, written from what is kept, without a copy or a tree of values in memory.
//!
//! The data of a result comes from the guest. A text of a few megabytes can describe a value of gigabytes, so JSON of
//! the guest is copied from text to text, token by token.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::sync::Arc;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_transcode::Transcoder;
use silica_domain::Payload;
use silica_engine::HeadTail;

/// What is kept of stdout or stderr, as a string.
#[derive(Clone, Debug)]
pub(crate) struct KeptText(pub(crate) Arc<HeadTail>);

impl Serialize for KeptText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&*self.0)
    }
}

/// A payload: JSON as JSON, text as a string, everything else in base 64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayloadValue<'a>(pub(crate) &'a Payload);

impl Serialize for PayloadValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(payload) = self;
        match std::str::from_utf8(&payload.data) {
            Ok(text) if payload.is_textual() && payload.mime.ends_with("json") => {
                JsonText(text).serialize(serializer)
            }
            Ok(text) if payload.is_textual() => serializer.serialize_str(text),
            _ => serializer.collect_str(&Base64Display::new(&payload.data, &STANDARD)),
        }
    }
}

/// A text as the JSON value that it describes, or as a string if it is not JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonText<'a>(pub(crate) &'a str);

impl JsonText<'_> {
    /// Returns whether the text is JSON that can be copied.
    pub(crate) fn is_valid(self) -> bool {
        let mut parser = serde_json::Deserializer::from_str(self.0);
        let mut discarded = serde_json::Serializer::new(io::sink());
        serde_transcode::transcode(&mut parser, &mut discarded).is_ok() && parser.end().is_ok()
    }
}

impl Serialize for JsonText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.is_valid() {
            return serializer.serialize_str(self.0);
        }
        let mut parser = serde_json::Deserializer::from_str(self.0);
        Transcoder::new(&mut parser).serialize(serializer)
    }
}

/// Bytes as text. Those that are not UTF-8 are replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossyText<'a>(pub(crate) &'a [u8]);

impl fmt::Display for LossyText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            formatter.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                formatter.write_str("\u{fffd}")?;
            }
        }
        Ok(())
    }
}
