//! The two framings of kernel messages on a WebSocket, and a decoder for hostile bytes.
//!
//! Without a subprotocol a message is JSON in a text frame, or, with buffers, in a binary one behind
//! big-endian offsets. With `v1.kernel.websocket.jupyter.org` it is a binary frame of parts behind
//! little-endian offsets.

#[cfg(test)]
mod tests;

use axum::extract::ws::Message as WebSocketMessage;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::message::{Channel, Header, KernelMessage};

/// The subprotocol of the second framing.
pub(super) const V1: &str = "v1.kernel.websocket.jupyter.org";

/// The largest frame of a client: the longest code many times over, and the buffers of a widget.
pub(super) const FRAME_BYTES_MAX: usize = 16 << 20;

/// The most parts of one frame.
const PARTS_MAX: usize = 256;

/// The framing of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// JSON.
    Json,
    /// Parts.
    V1,
}

/// Why a frame is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    /// The offsets do not fit the frame.
    #[error("the offsets of the frame are not valid")]
    Offsets,
    /// The JSON is not that of a message.
    #[error("the frame is not a kernel message")]
    Json,
    /// A text frame where the subprotocol has none.
    #[error("the subprotocol has no text frames")]
    Text,
}

/// A message of a client.
#[derive(Clone, Debug)]
pub(super) struct Received {
    pub(super) channel: Channel,
    pub(super) header: Header,
    /// JSON.
    pub(super) content: Box<RawValue>,
    /// JSON.
    pub(super) metadata: Option<Box<RawValue>>,
    pub(super) buffers: Vec<Bytes>,
}

/// A message as one JSON value.
#[derive(Deserialize)]
struct WholeMessage {
    header: Box<RawValue>,
    #[serde(default)]
    content: Option<Box<RawValue>>,
    #[serde(default)]
    metadata: Option<Box<RawValue>>,
    #[serde(default)]
    channel: Option<Channel>,
}

/// Decodes a text frame.
pub(super) fn decode_text(framing: Framing, text: &str) -> Result<Received, FrameError> {
    match framing {
        Framing::Json => whole(text.as_bytes(), Vec::new()),
        Framing::V1 => Err(FrameError::Text),
    }
}

/// Decodes a binary frame.
pub(super) fn decode_binary(framing: Framing, frame: &Bytes) -> Result<Received, FrameError> {
    match framing {
        Framing::Json => {
            let count = u32_at(frame, 0, u32::from_be_bytes)?;
            let offset = |index: usize| u32_at(frame, 4 * (index + 1), u32::from_be_bytes);
            let mut parts = parts(frame, count, offset, End::OfFrame)?;
            if parts.is_empty() {
                return Err(FrameError::Offsets);
            }
            let json = parts.remove(0);
            whole(&json, parts)
        }
        Framing::V1 => {
            let count = u64_at(frame, 0)?;
            let offset = |index: usize| u64_at(frame, 8 * (index + 1));
            let parts = parts(frame, count, offset, End::LastOffset)?;
            split(parts)
        }
    }
}

fn whole(json: &[u8], buffers: Vec<Bytes>) -> Result<Received, FrameError> {
    // serde_json gives up at 128 levels, and of values that are not needed it keeps nothing.
    let message: WholeMessage = serde_json::from_slice(json).map_err(|_| FrameError::Json)?;
    Ok(Received {
        channel: message.channel.unwrap_or(Channel::Shell),
        header: Header::parse(message.header).ok_or(FrameError::Json)?,
        content: message.content.unwrap_or_else(empty),
        metadata: message.metadata,
        buffers,
    })
}

fn split(mut parts: Vec<Bytes>) -> Result<Received, FrameError> {
    if parts.len() < 5 {
        return Err(FrameError::Offsets);
    }
    let buffers = parts.split_off(5);
    let channel = std::str::from_utf8(&parts[0]).ok().and_then(Channel::from_name);
    let raw = |part: &Bytes| {
        let text = std::str::from_utf8(part).map_err(|_| FrameError::Json)?;
        serde_json::from_str::<Box<RawValue>>(text).map_err(|_| FrameError::Json)
    };
    Ok(Received {
        channel: channel.ok_or(FrameError::Json)?,
        header: Header::parse(raw(&parts[1])?).ok_or(FrameError::Json)?,
        metadata: Some(raw(&parts[3])?),
        content: raw(&parts[4])?,
        buffers,
    })
}

fn empty() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("it is JSON")
}

/// Where the last part of a frame ends.
#[derive(Clone, Copy)]
enum End {
    OfFrame,
    LastOffset,
}

/// Cuts a frame at its offsets, which must not decrease and must lie in it.
fn parts(
    frame: &Bytes,
    count: usize,
    offset: impl Fn(usize) -> Result<usize, FrameError>,
    end: End,
) -> Result<Vec<Bytes>, FrameError> {
    if count > PARTS_MAX {
        return Err(FrameError::Offsets);
    }
    let mut offsets = (0..count).map(offset).collect::<Result<Vec<_>, _>>()?;
    match end {
        End::OfFrame => offsets.push(frame.len()),
        End::LastOffset => {}
    }
    let cut = |pair: &[usize]| {
        let is_valid = pair[0] <= pair[1] && pair[1] <= frame.len();
        is_valid.then(|| frame.slice(pair[0]..pair[1])).ok_or(FrameError::Offsets)
    };
    offsets.windows(2).map(cut).collect()
}

fn u32_at(frame: &Bytes, at: usize, read: fn([u8; 4]) -> u32) -> Result<usize, FrameError> {
    let bytes = frame.get(at..at + 4).ok_or(FrameError::Offsets)?;
    let bytes = bytes.try_into().map_err(|_| FrameError::Offsets)?;
    usize::try_from(read(bytes)).map_err(|_| FrameError::Offsets)
}

fn u64_at(frame: &Bytes, at: usize) -> Result<usize, FrameError> {
    let bytes = frame.get(at..at + 8).ok_or(FrameError::Offsets)?;
    let bytes = bytes.try_into().map_err(|_| FrameError::Offsets)?;
    usize::try_from(u64::from_le_bytes(bytes)).map_err(|_| FrameError::Offsets)
}

/// A message of the server as one JSON value.
#[derive(Serialize)]
struct SentMessage<'a> {
    header: &'a RawValue,
    msg_id: &'a str,
    msg_type: &'a str,
    parent_header: &'a RawValue,
    metadata: &'a RawValue,
    content: &'a RawValue,
    channel: Channel,
    buffers: [(); 0],
}

/// Encodes a message.
pub(super) fn encode(framing: Framing, message: &KernelMessage) -> WebSocketMessage {
    match framing {
        Framing::V1 => WebSocketMessage::Binary(encode_parts(message).into()),
        Framing::Json => {
            let json = encode_json(message);
            if message.buffers.is_empty() {
                return WebSocketMessage::Text(json.into());
            }
            let parts: Vec<&[u8]> = std::iter::once(json.as_bytes())
                .chain(message.buffers.iter().map(|b| &**b))
                .collect();
            let mut frame = (parts.len() as u32).to_be_bytes().to_vec();
            let mut at = 4 * (parts.len() + 1);
            for part in &parts {
                frame.extend_from_slice(&(at as u32).to_be_bytes());
                at += part.len();
            }
            for part in &parts {
                frame.extend_from_slice(part);
            }
            WebSocketMessage::Binary(frame.into())
        }
    }
}

fn encode_json(message: &KernelMessage) -> String {
    let sent = SentMessage {
        header: &message.header,
        msg_id: &message.id,
        msg_type: message.kind,
        parent_header: &message.parent,
        metadata: &message.metadata,
        content: &message.content,
        channel: message.channel,
        buffers: [],
    };
    serde_json::to_string(&sent).expect("text and JSON always serialise")
}

fn encode_parts(message: &KernelMessage) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = vec![message.channel.name().as_bytes()];
    let json: [&RawValue; 4] =
        [&message.header, &message.parent, &message.metadata, &message.content];
    parts.extend(json.map(|json| json.get().as_bytes()));
    parts.extend(message.buffers.iter().map(|buffer| &**buffer));
    let count = parts.len() + 1;
    let mut frame = (count as u64).to_le_bytes().to_vec();
    let mut at = 8 * (count + 1);
    for length in std::iter::once(0).chain(parts.iter().map(|part| part.len())) {
        at += length;
        frame.extend_from_slice(&(at as u64).to_le_bytes());
    }
    for part in &parts {
        frame.extend_from_slice(part);
    }
    frame
}

/// Decodes bytes in every way, and checks that no part is made up.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(data: &[u8]) {
    let frame = Bytes::copy_from_slice(data);
    for framing in [Framing::Json, Framing::V1] {
        if let Ok(received) = decode_binary(framing, &frame) {
            let parts: usize = received.buffers.iter().map(Bytes::len).sum();
            // Parts may overlap, but each lies in the frame.
            assert!(parts <= PARTS_MAX * frame.len(), "more than the frame holds");
        }
        if let Ok(text) = std::str::from_utf8(data) {
            drop(decode_text(framing, text));
        }
    }
}
