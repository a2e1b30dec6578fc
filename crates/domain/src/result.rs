//! What a cell shows: bundles of representations, and the error it ended with.

#[cfg(test)]
mod tests;

/// One representation of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub mime: String,
    /// Its bytes; text is UTF-8.
    pub data: Vec<u8>,
}

impl Payload {
    /// Returns whether the bytes are text in UTF-8; everything else has to be encoded where only
    /// text can go.
    ///
    /// Decided by the MIME type alone, by the rule the guest encodes by. A guest that lies about it
    /// sends bytes that are not UTF-8 under a textual type, so this is no promise about the bytes.
    pub fn is_textual(&self) -> bool {
        const BINARY: [&str; 3] =
            ["application/pdf", "application/octet-stream", "application/zip"];
        const BINARY_FAMILIES: [&str; 4] = ["image/", "audio/", "video/", "font/"];
        // The table in guest/README.md; both sides must decide alike.
        self.mime == "image/svg+xml"
            || !BINARY.contains(&&*self.mime)
                && !BINARY_FAMILIES.iter().any(|family| self.mime.starts_with(family))
    }
}

/// One result of a cell: the same thing in one or more representations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Whether it is the value of the last expression.
    pub main: bool,
    /// The representations, plainest first.
    pub payloads: Vec<Payload>,
    /// What is said about them, by MIME type: a JSON object, or empty.
    pub metadata: String,
    /// The name by which a later result replaces this one.
    pub display: Option<Display>,
}

/// The name of a result that can be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Display {
    pub id: String,
    /// Whether it replaces the earlier results of that name.
    pub update: bool,
}

/// What a message of a comm does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommKind {
    /// Opens it.
    Open,
    /// Sends something.
    Message,
    /// Closes it.
    Close,
}

impl CommKind {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Message => "message",
            Self::Close => "close",
        }
    }

    /// Returns the kind of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Open, Self::Message, Self::Close].into_iter().find(|kind| kind.name() == name)
    }
}

/// A message between code in a kernel and a client, as widgets use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommMessage {
    pub kind: CommKind,
    /// The comm that it belongs to.
    pub id: String,
    /// What a new comm is for; empty for one that is open.
    pub target: String,
    /// A JSON value.
    pub data: String,
    /// A JSON object, or empty.
    pub metadata: String,
    pub buffers: Vec<Vec<u8>>,
}

impl CommMessage {
    /// Returns how many bytes it holds.
    pub fn bytes(&self) -> u64 {
        let buffers: usize = self.buffers.iter().map(Vec::len).sum();
        let texts = [&self.id, &self.target, &self.data, &self.metadata];
        (buffers + texts.iter().map(|text| text.len()).sum::<usize>()) as u64
    }
}

impl Bundle {
    /// Returns the representation of a MIME type.
    pub fn get(&self, mime: &str) -> Option<&[u8]> {
        self.payloads.iter().find(|payload| payload.mime == mime).map(|payload| &*payload.data)
    }

    /// Returns how many bytes it holds.
    pub fn bytes(&self) -> u64 {
        let payloads: u64 = self.payloads.iter().map(|payload| payload.data.len() as u64).sum();
        // Metadata counts too: it is kept and sent on like the payloads.
        payloads + self.metadata.len() as u64
    }
}

/// An exception as the guest reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellError {
    /// The class.
    pub name: String,
    /// Its text.
    pub value: String,
    /// The lines of its traceback.
    pub traceback: Vec<String>,
}

impl CellError {
    /// Returns how many bytes it holds.
    pub fn bytes(&self) -> u64 {
        let traceback: usize =
            self.traceback.iter().map(|line| size_of::<String>() + line.len()).sum();
        (self.name.len() + self.value.len() + traceback) as u64
    }

    /// Returns its class alone, of at most 100 characters.
    #[must_use]
    pub fn without_text(&self) -> Self {
        const NAME_CHARS_MAX: usize = 100;
        let name = self.name.chars().take(NAME_CHARS_MAX).collect();
        Self { name, value: String::new(), traceback: Vec::new() }
    }
}
