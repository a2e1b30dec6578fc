//! What a cell shows: bundles of representations, and the error it ended with.

/// One representation of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Its MIME type.
    pub mime: String,
    /// Its bytes; text is UTF-8.
    pub data: Vec<u8>,
}

/// One result of a cell: the same thing in one or more representations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Whether it is the value of the last expression.
    pub main: bool,
    /// The representations, plainest first.
    pub payloads: Vec<Payload>,
}

impl Bundle {
    /// The representation of a MIME type.
    pub fn get(&self, mime: &str) -> Option<&[u8]> {
        self.payloads.iter().find(|payload| payload.mime == mime).map(|payload| &*payload.data)
    }

    /// How many bytes it holds.
    pub fn bytes(&self) -> u64 {
        self.payloads.iter().map(|payload| payload.data.len() as u64).sum()
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
