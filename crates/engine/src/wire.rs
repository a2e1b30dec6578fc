//! The frames between host and guest: their shapes, and a decoder for hostile bytes.
//!
//! `u32 LE head length | u32 LE body length | head: JSON | body`. Everything that comes from the
//! guest is decoded by total functions: no panic, no allocation larger than a bound, no trust.
//! Tests: `tests/it/engine/misbehaving.rs`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use silica_domain::{Bundle, CellError, CommKind, CommMessage, Display, LeftBehind, Payload};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The protocol version this build speaks.
pub(crate) const VERSION: u32 = 1;

/// The longest head.
// `guest/silica_guest/wire.py` has the same bound, so only code that writes to the socket past the
// runner exceeds it.
pub(crate) const HEAD_BYTES_MAX: usize = 1024 * 1024;

/// The most representations of one result.
// `MIMES_MAX` and `MIME_CHARS_MAX` in `guest/silica_guest/bundles.py` are the same: an honest guest
// drops what the host would refuse.
const PAYLOADS_MAX: usize = 64;

/// The most completions of one word.
// `MATCHES_MAX` in `guest/silica_guest/completion.py` is the same.
const COMPLETIONS_MAX: usize = 200;

/// The most names of what an image leaves behind.
// `NAMES_MAX` in `guest/silica_guest/carry.py` is the same.
const LEFT_BEHIND_MAX: usize = 256;

/// The longest MIME type that is believed to be one.
const MIME_BYTES_MAX: usize = 255;

/// The longest metadata of one result: twice what the guest sends, for it may write numbers
/// shorter.
const METADATA_BYTES_MAX: usize = 128 * 1024;

/// The heads of frames from the host.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum ToGuest<'a> {
    /// Before the first cell.
    Setup { env: &'a BTreeMap<String, String>, argv: &'a [String], cwd: &'a str },
    /// Run the body as a cell.
    Run {
        cell: u64,
        results_max: u32,
        result_bytes_max: u64,
        /// Variables for this cell alone.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        env: &'a BTreeMap<String, String>,
        /// The name of the file that the code comes from.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        /// `sys.argv` from this cell on.
        #[serde(skip_serializing_if = "Option::is_none")]
        argv: Option<&'a [String]>,
        /// Whether `input` asks the client.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<bool>,
        /// The message of a comm that is delivered instead of code.
        #[serde(skip_serializing_if = "Option::is_none")]
        comm: Option<CommHead<'a>>,
    },
    /// Say what the name at the cursor in the body is.
    Inspect { cursor: u64, detail: u8 },
    /// Say whether the code in the body is complete.
    Check,
    /// The body is a line that this cell asked for.
    Input { cell: u64 },
    /// Say which names can follow the code in the body.
    Complete,
    /// Write an image of the interpreter.
    Write {
        threads: &'static str,
        shared: &'static str,
        processes: &'static str,
        any_zygote: bool,
        same_random: bool,
    },
    /// A result has been taken.
    Ack { seq: u64 },
    /// The signal that follows is for this cell.
    Interrupt { cell: u64 },
}

/// The message of a comm in the head of a frame; its parts are the body.
#[derive(Debug, Serialize)]
pub(crate) struct CommHead<'a> {
    kind: &'static str,
    id: &'a str,
    target: &'a str,
    metadata: &'a str,
    parts: Vec<usize>,
}

impl<'a> CommHead<'a> {
    /// Returns the head for a message, and the body.
    pub(crate) fn new(comm: &'a CommMessage) -> (Self, Vec<u8>) {
        let parts =
            || std::iter::once(comm.data.as_bytes()).chain(comm.buffers.iter().map(|b| &**b));
        let head = Self {
            kind: comm.kind.name(),
            id: &comm.id,
            target: &comm.target,
            metadata: &comm.metadata,
            parts: parts().map(<[u8]>::len).collect(),
        };
        (head, parts().flatten().copied().collect())
    }
}

/// The head of a frame from the guest.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Head {
    Hello {
        version: u32,
        #[serde(default)]
        left_behind: Vec<(String, String)>,
    },
    Unwritable {
        reasons: Vec<(String, String)>,
    },
    Writing {
        left_behind: Vec<(String, String)>,
    },
    Forked {},
    Result {
        cell: u64,
        seq: u64,
        main: bool,
        mimes: Vec<(String, u64)>,
        #[serde(default)]
        metadata: Map<String, Value>,
        #[serde(default)]
        display: Option<String>,
        #[serde(default)]
        update: bool,
    },
    Clear {
        cell: u64,
        seq: u64,
        wait: bool,
    },
    Comm {
        cell: u64,
        seq: u64,
        kind: String,
        id: String,
        target: String,
        #[serde(default)]
        metadata: Map<String, Value>,
        parts: Vec<u64>,
    },
    Input {
        cell: u64,
        seq: u64,
        prompt: String,
        password: bool,
    },
    Inspection {
        found: bool,
    },
    Checked {
        status: CheckedStatus,
        indent: String,
    },
    Error {
        cell: u64,
        name: String,
        value: String,
        traceback: Vec<String>,
    },
    Done {
        cell: u64,
        status: Status,
        // Wider than an exit status: `sys.exit` takes any integer, and `decode` keeps the low byte.
        exit_code: i64,
        #[serde(default)]
        results_dropped: u64,
        #[serde(default)]
        results_too_large: u64,
    },
    Completions {
        start: u64,
        matches: Vec<String>,
    },
    Refused {
        step: String,
        errno: i32,
    },
}

/// Whether code is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckedStatus {
    Complete,
    Incomplete,
    Invalid,
}

/// How the guest says a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Ok,
    Raised,
    Interrupted,
    Exited,
}

/// A frame from the guest, decoded and checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FromGuest {
    Hello { left_behind: Vec<LeftBehind> },
    Unwritable { reasons: Vec<LeftBehind> },
    Writing { left_behind: Vec<LeftBehind> },
    Forked,
    Result { cell: u64, seq: u64, bundle: Bundle },
    Error { cell: u64, error: CellError },
    Done { cell: u64, status: Status, exit_code: i32, results_dropped: u64, results_too_large: u64 },
    Clear { cell: u64, seq: u64, wait: bool },
    Comm { cell: u64, seq: u64, comm: CommMessage },
    Input { cell: u64, seq: u64, prompt: String, password: bool },
    Inspection { text: Option<String> },
    Checked { status: CheckedStatus, indent: String },
    Completions { start: u64, matches: Vec<String> },
    Refused { step: String, errno: i32 },
}

/// Why bytes are not a frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The connection ended or failed.
    #[error("the guest's control connection ended")]
    Closed(#[source] std::io::Error),
    /// Longer than any honest frame.
    #[error("the guest sent a frame of {0} bytes")]
    TooLong(u64),
    /// Not what a head looks like.
    #[error("the guest sent a frame that is not one")]
    Malformed(#[source] serde_json::Error),
    /// A head that contradicts its body or the version.
    #[error("the guest sent a frame that contradicts itself")]
    Inconsistent,
}

/// Builds one frame.
pub(crate) fn encode(head: &ToGuest<'_>, body: &[u8]) -> Vec<u8> {
    let head = serde_json::to_vec(head).expect("strings and numbers always serialise");
    let mut frame = Vec::with_capacity(8 + head.len() + body.len());
    frame.extend_from_slice(&(head.len() as u32).to_le_bytes());
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(&head);
    frame.extend_from_slice(body);
    frame
}

/// Checks the two lengths in front of a frame.
pub(crate) fn lengths(prefix: [u8; 8], body_bytes_max: u64) -> Result<(usize, usize), WireError> {
    // Widened to u64, so that the sum below cannot overflow.
    let number = |at: usize| {
        u64::from(u32::from_le_bytes([prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]]))
    };
    let (head, body) = (number(0), number(4));
    // Both lengths are claims of the guest. They are refused before a byte of the frame is awaited
    // or allocated.
    if head > HEAD_BYTES_MAX as u64 || body > body_bytes_max {
        return Err(WireError::TooLong(head + body));
    }
    Ok((head as usize, body as usize))
}

/// Decodes the head and body of one frame.
pub(crate) fn decode(head: &[u8], body: &[u8]) -> Result<FromGuest, WireError> {
    // serde_json gives up at 128 levels, so a head of brackets cannot exhaust the stack.
    match serde_json::from_slice(head).map_err(WireError::Malformed)? {
        Head::Hello { version, left_behind } if version == VERSION => {
            Ok(FromGuest::Hello { left_behind: things(left_behind)? })
        }
        Head::Unwritable { reasons } => Ok(FromGuest::Unwritable { reasons: things(reasons)? }),
        Head::Writing { left_behind } => {
            Ok(FromGuest::Writing { left_behind: things(left_behind)? })
        }
        Head::Forked {} => Ok(FromGuest::Forked),
        // The runner comes from this binary (`guest.rs`), so another version is no honest guest.
        Head::Hello { .. } => Err(WireError::Inconsistent),
        Head::Result { cell, seq, main, mimes, metadata, display, update } => {
            let payloads = payloads(mimes, body)?;
            let display =
                display.map(|id| bounded(id).map(|id| Display { id, update })).transpose()?;
            let metadata = metadata_text(&metadata)?;
            Ok(FromGuest::Result {
                cell,
                seq,
                bundle: Bundle { main, payloads, metadata, display },
            })
        }
        Head::Clear { cell, seq, wait } => Ok(FromGuest::Clear { cell, seq, wait }),
        Head::Comm { cell, seq, kind, id, target, metadata, parts } => {
            let kind = CommKind::from_name(&kind).ok_or(WireError::Inconsistent)?;
            let mut parts = cut(&parts, body)?.into_iter();
            let data = parts.next().ok_or(WireError::Inconsistent)?;
            let data = String::from_utf8(data.to_vec()).map_err(|_| WireError::Inconsistent)?;
            let comm = CommMessage {
                kind,
                id: bounded(id)?,
                target: bounded(target)?,
                data,
                metadata: metadata_text(&metadata)?,
                buffers: parts.map(<[u8]>::to_vec).collect(),
            };
            Ok(FromGuest::Comm { cell, seq, comm })
        }
        Head::Input { cell, seq, prompt, password } => {
            Ok(FromGuest::Input { cell, seq, prompt, password })
        }
        Head::Inspection { found } => {
            let text = found.then(|| String::from_utf8_lossy(body).into_owned());
            Ok(FromGuest::Inspection { text })
        }
        Head::Checked { status, indent } => {
            // It is put before a line of the user.
            let is_space = indent.len() <= INDENT_MAX && indent.bytes().all(|byte| byte == b' ');
            let checked = FromGuest::Checked { status, indent };
            is_space.then_some(checked).ok_or(WireError::Inconsistent)
        }
        Head::Error { cell, name, value, traceback } => {
            Ok(FromGuest::Error { cell, error: CellError { name, value, traceback } })
        }
        Head::Done { cell, status, exit_code, results_dropped, results_too_large } => {
            // Exit statuses are what the kernel would make of them: the low byte.
            let exit_code = (exit_code & 0xff) as i32;
            Ok(FromGuest::Done { cell, status, exit_code, results_dropped, results_too_large })
        }
        Head::Completions { start, matches } => {
            let is_name = |text: &String| {
                !text.is_empty() && text.chars().all(|c| c == '_' || c.is_alphanumeric())
            };
            // They are shown on a terminal, so a name must be one.
            if matches.len() > COMPLETIONS_MAX || !matches.iter().all(is_name) {
                return Err(WireError::Inconsistent);
            }
            Ok(FromGuest::Completions { start, matches })
        }
        Head::Refused { step, errno } => Ok(FromGuest::Refused { step, errno }),
    }
}

/// Checks a list of what did not come along.
fn things(list: Vec<(String, String)>) -> Result<Vec<LeftBehind>, WireError> {
    if list.len() > LEFT_BEHIND_MAX {
        return Err(WireError::Inconsistent);
    }
    let thing = |(kind, name): (String, String)| LeftBehind::of_guest(&kind, &name);
    list.into_iter().map(|entry| thing(entry).ok_or(WireError::Inconsistent)).collect()
}

/// The longest id of a display or a comm, and the longest name of a comm's target.
// `DISPLAY_ID_CHARS_MAX` and `COMM_CHARS_MAX` in `guest/silica_guest/kernel.py` are less, in characters.
const NAME_BYTES_MAX: usize = 4096;

/// The widest indentation of a line.
const INDENT_MAX: usize = 1000;

/// The most parts of a comm's message.
const COMM_PARTS_MAX: usize = 256;

/// Checks the length of a name.
fn bounded(name: String) -> Result<String, WireError> {
    if name.len() <= NAME_BYTES_MAX { Ok(name) } else { Err(WireError::Inconsistent) }
}

/// Cuts a body into parts of these lengths, which must fit it exactly.
fn cut<'a>(lengths: &[u64], body: &'a [u8]) -> Result<Vec<&'a [u8]>, WireError> {
    if lengths.len() > COMM_PARTS_MAX {
        return Err(WireError::Inconsistent);
    }
    let mut rest = body;
    let mut parts = Vec::with_capacity(lengths.len());
    for length in lengths {
        let length = usize::try_from(*length).map_err(|_| WireError::Inconsistent)?;
        let (part, after) = rest.split_at_checked(length).ok_or(WireError::Inconsistent)?;
        parts.push(part);
        rest = after;
    }
    if rest.is_empty() { Ok(parts) } else { Err(WireError::Inconsistent) }
}

/// Cuts a body into the representations its head announces; they must fit it exactly.
fn payloads(mimes: Vec<(String, u64)>, body: &[u8]) -> Result<Vec<Payload>, WireError> {
    // Before the allocation that this number sizes.
    if mimes.len() > PAYLOADS_MAX {
        return Err(WireError::Inconsistent);
    }
    let mut rest = body;
    let mut payloads = Vec::with_capacity(mimes.len());
    for (mime, length) in mimes {
        let length = usize::try_from(length).map_err(|_| WireError::Inconsistent)?;
        // A length beyond the body would panic in `split_at`.
        let (data, after) = rest.split_at_checked(length).ok_or(WireError::Inconsistent)?;
        // Clients are promised one printable word and no more: `../../x` passes (SECURITY.md,
        // "Names of results").
        if mime.len() > MIME_BYTES_MAX || !mime.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(WireError::Inconsistent);
        }
        payloads.push(Payload { mime, data: data.to_vec() });
        rest = after;
    }
    if rest.is_empty() { Ok(payloads) } else { Err(WireError::Inconsistent) }
}

/// Returns the metadata of a result as the domain keeps it: JSON text, or nothing.
fn metadata_text(metadata: &Map<String, Value>) -> Result<String, WireError> {
    if metadata.is_empty() {
        return Ok(String::new());
    }
    // Written anew from the parsed value: the domain keeps JSON of our own making, and not bytes
    // that a guest chose.
    let text = serde_json::to_string(metadata).expect("JSON always serialises");
    if text.len() > METADATA_BYTES_MAX { Err(WireError::Inconsistent) } else { Ok(text) }
}

/// Reads frames from a stream; safe to drop and resume at any point.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    stream: R,
    buffer: Vec<u8>,
    wanted: usize,
    body_bytes_max: u64,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(stream: R, body_bytes_max: u64) -> Self {
        Self { stream, buffer: Vec::new(), wanted: 8, body_bytes_max }
    }

    /// Changes how long a body may be; takes effect with the next frame.
    pub(crate) fn allow_bodies(&mut self, bytes_max: u64) {
        self.body_bytes_max = bytes_max;
    }

    /// Waits for the next frame. Cancelling loses nothing: what was read stays in the buffer.
    pub(crate) async fn next(&mut self) -> Result<FromGuest, WireError> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(frame);
            }
            let missing = self.wanted.saturating_sub(self.buffer.len());
            // `read_buf` is cancel safe: a dropped read has taken nothing from the socket. The room
            // grows with what has arrived and not with what the head claims.
            self.buffer.reserve(missing.clamp(READ_AT_LEAST, READ_AT_MOST));
            let read = self.stream.read_buf(&mut self.buffer).await.map_err(WireError::Closed)?;
            if read == 0 {
                return Err(WireError::Closed(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Takes a whole frame out of the buffer, if it holds one.
    fn take(&mut self) -> Result<Option<FromGuest>, WireError> {
        let Some(prefix) = self.buffer.first_chunk::<8>() else {
            return Ok(None);
        };
        let (head, body) = lengths(*prefix, self.body_bytes_max)?;
        // Only after `lengths` has checked both, or a claim could ask for 8 GiB.
        self.wanted = 8 + head + body;
        if self.buffer.len() < self.wanted {
            return Ok(None);
        }
        let frame = decode(&self.buffer[8..8 + head], &self.buffer[8 + head..self.wanted]);
        self.buffer.drain(..self.wanted);
        self.wanted = 8;
        // A large frame's room is given back; small ones keep theirs.
        self.buffer.shrink_to(READ_AT_MOST);
        frame.map(Some)
    }
}

/// How much is read at once: enough for most frames, and little enough that a claimed length alone
/// allocates nothing.
const READ_AT_LEAST: usize = 4 * 1024;
const READ_AT_MOST: usize = 64 * 1024;
