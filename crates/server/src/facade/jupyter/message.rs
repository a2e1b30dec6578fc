//! Kernel messages: their channels and headers, and the messages that the server sends.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use silica_store::Timestamp;

/// The version of the messaging protocol.
pub(super) const PROTOCOL: &str = "5.3";

/// A channel of a kernel.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Channel {
    Shell,
    Control,
    Stdin,
    Iopub,
}

impl Channel {
    /// Returns its name on the wire.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Control => "control",
            Self::Stdin => "stdin",
            Self::Iopub => "iopub",
        }
    }

    /// Returns the channel of a name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::Shell, Self::Control, Self::Stdin, Self::Iopub]
            .into_iter()
            .find(|channel| channel.name() == name)
    }
}

/// The longest header of a client: every answer repeats it.
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// The header of a client's message.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) msg_type: String,
    /// The whole of it, as the client wrote it.
    raw: Parent,
}

#[derive(Deserialize)]
struct HeaderFields {
    #[serde(rename = "msg_id")]
    _id: String,
    msg_type: String,
}

impl Header {
    /// Reads a header; `None` if it is none, or too long.
    pub(super) fn parse(json: Box<RawValue>) -> Option<Self> {
        if json.get().len() > HEADER_BYTES_MAX {
            return None;
        }
        let HeaderFields { msg_type, .. } = serde_json::from_str(json.get()).ok()?;
        Some(Self { msg_type, raw: Parent(json.into()) })
    }
}

/// The header of the message that another one answers, as JSON.
#[derive(Clone, Debug)]
pub(super) struct Parent(Arc<RawValue>);

impl Parent {
    /// Returns the parent of a message that answers none.
    pub(super) fn none() -> Self {
        Self(raw(&serde_json::Map::new()).into())
    }

    /// Returns a header as a parent.
    pub(super) fn of(header: &Header) -> Self {
        header.raw.clone()
    }
}

/// The header of a message of the server.
#[derive(Serialize)]
struct SentHeader<'a> {
    msg_id: &'a str,
    msg_type: &'a str,
    username: &'a str,
    session: &'a str,
    date: Timestamp,
    version: &'a str,
}

/// A message of the server.
#[derive(Debug)]
pub(super) struct KernelMessage {
    pub(super) channel: Channel,
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) header: Box<RawValue>,
    pub(super) parent: Arc<RawValue>,
    pub(super) metadata: Box<RawValue>,
    pub(super) content: Box<RawValue>,
    pub(super) buffers: Vec<Bytes>,
}

impl KernelMessage {
    /// Makes a message of this type.
    pub(super) fn new(
        channel: Channel,
        kind: &'static str,
        parent: &Parent,
        content: &impl Serialize,
    ) -> Self {
        let id = uuid::Uuid::new_v4().to_string();
        let header = raw(&SentHeader {
            msg_id: &id,
            msg_type: kind,
            username: "silica",
            session: "silica",
            date: Timestamp::now(),
            version: PROTOCOL,
        });
        Self {
            channel,
            id,
            kind,
            header,
            parent: Arc::clone(&parent.0),
            metadata: raw(&serde_json::Map::new()),
            content: raw(content),
            buffers: Vec::new(),
        }
    }

    /// Returns about how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let buffers: usize = self.buffers.iter().map(Bytes::len).sum();
        self.content.get().len() + buffers + HEADERS_BYTES
    }
}

/// What the headers of a message take, about.
const HEADERS_BYTES: usize = 512;

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("text, numbers and JSON always serialise")
}
