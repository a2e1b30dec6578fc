//! Reads the first message of a TLS client, for the name in it.
//!
//! Bytes come in any pieces and the message in any number of records. Nothing is answered here; the
//! bytes are kept and passed on.

#[cfg(test)]
mod tests;

/// The longest hello, with its record headers. Post-quantum key shares make hellos of a few KiB.
pub(crate) const HELLO_BYTES_MAX: usize = 64 * 1024;

/// The longest record (RFC 8446, 5.1).
const RECORD_BYTES_MAX: usize = 16 * 1024;

const RECORD_HEADER_BYTES: usize = 5;
const RECORD_HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const EXTENSION_SERVER_NAME: u16 = 0;
const NAME_HOST: u8 = 0;

/// Why bytes are no hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotHello(pub(crate) &'static str);

/// What a hello says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The name of the host, as it was sent.
    pub(crate) server_name: Option<String>,
}

/// Collects bytes until the hello is whole.
#[derive(Debug, Default)]
pub(crate) struct HelloReader {
    raw: Vec<u8>,
    /// How many bytes of `raw` are whole records that were taken in.
    taken: usize,
    handshake: Vec<u8>,
}

impl HelloReader {
    /// Takes bytes in. Returns the hello once it is whole.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Option<Hello>, NotHello> {
        self.raw.extend_from_slice(bytes);
        while let Some(record) = record(&self.raw[self.taken..])? {
            self.taken += RECORD_HEADER_BYTES + record.len();
            self.handshake.extend_from_slice(record);
            if let Some(body) = message(&self.handshake)? {
                return parse(body).map(Some).ok_or(NotHello("the hello is malformed"));
            }
        }
        if self.raw.len() >= HELLO_BYTES_MAX {
            return Err(NotHello("the hello is longer than 64 KiB"));
        }
        Ok(None)
    }

    /// Returns all bytes that were taken in.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.raw
    }
}

/// Returns the body of the first record, if it is whole.
fn record(bytes: &[u8]) -> Result<Option<&[u8]>, NotHello> {
    // What is not TLS is refused at its first byte, not when it happens to be long enough.
    match bytes.first() {
        None => return Ok(None),
        Some(&RECORD_HANDSHAKE) => {}
        Some(_) => return Err(NotHello("it is not TLS")),
    }
    if bytes.get(1).is_some_and(|&major| major != 3) {
        return Err(NotHello("it is not TLS"));
    }
    let Some((header, rest)) = bytes.split_at_checked(RECORD_HEADER_BYTES) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if length == 0 || length > RECORD_BYTES_MAX {
        return Err(NotHello("a record has a length that is not allowed"));
    }
    Ok(rest.get(..length))
}

/// Returns the body of the hello, if it is whole.
fn message(handshake: &[u8]) -> Result<Option<&[u8]>, NotHello> {
    if handshake.first().is_some_and(|&kind| kind != CLIENT_HELLO) {
        return Err(NotHello("the first message is not a client's hello"));
    }
    let Some(&[_, high, middle, low]) = handshake.get(..4) else {
        return Ok(None);
    };
    let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
    if length > HELLO_BYTES_MAX {
        return Err(NotHello("the hello is longer than 64 KiB"));
    }
    Ok(handshake.get(4..4 + length))
}

/// Takes parts off the front of bytes.
struct Cursor<'bytes>(&'bytes [u8]);

impl<'bytes> Cursor<'bytes> {
    fn take(&mut self, count: usize) -> Option<&'bytes [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number8(&mut self) -> Option<usize> {
        self.take(1).map(|bytes| usize::from(bytes[0]))
    }

    fn number16(&mut self) -> Option<usize> {
        self.take(2).map(|bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    /// Takes what a length of two bytes announces.
    fn vector16(&mut self) -> Option<Self> {
        let length = self.number16()?;
        self.take(length).map(Self)
    }
}

fn parse(body: &[u8]) -> Option<Hello> {
    let mut body = Cursor(body);
    // The version and the random number.
    body.take(2 + 32)?;
    let session = body.number8()?;
    body.take(session)?;
    body.vector16()?;
    let compressions = body.number8()?;
    body.take(compressions)?;
    if body.0.is_empty() {
        return Some(Hello { server_name: None });
    }
    let mut extensions = body.vector16()?;
    if !body.0.is_empty() {
        return None;
    }
    let mut server_name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number16()?;
        let content = extensions.vector16()?;
        if kind == usize::from(EXTENSION_SERVER_NAME) {
            // A second name could be the one that the far side believes.
            if server_name.is_some() {
                return None;
            }
            server_name = Some(host_name(content)?);
        }
    }
    Some(Hello { server_name })
}

fn host_name(mut extension: Cursor<'_>) -> Option<String> {
    let mut names = extension.vector16()?;
    let kind = names.number8()?;
    let name = names.vector16()?;
    let single = names.0.is_empty() && extension.0.is_empty();
    if kind != usize::from(NAME_HOST) || !single {
        return None;
    }
    String::from_utf8(name.0.to_vec()).ok()
}
