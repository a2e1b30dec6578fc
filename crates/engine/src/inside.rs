//! Reading what the host must not open itself: files outside the writable directories, and what
//! links of the guest lead to.
//!
//! A process in the sandbox does it, with the sandbox's rights (`guest/silica_guest/reader.py`): a
//! command of its own that starts from read-only files and a fixed environment. The guest can stop
//! it, change its memory or write in its place, and so deceive itself. What it writes is hostile:
//! `frame` decodes it, every answer has a bound in bytes, entries and time, and a reader that is no
//! longer needed is killed.
//!
//! Tests: `tests/it/engine/inside.rs`.

mod frame;
mod path;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::command::{
    CommandError, CommandEvent, CommandInput, CommandProcess, CommandSpec, START_PATIENCE, Stdin,
};
use crate::files::{DEPTH_MAX, FileError, FileStat, Range};
use crate::sandbox::Sandbox;

use frame::{Frame, HEAD_BYTES, Malformed};
pub use frame::{InsideEntry, LinkEnd};
pub use path::{InsidePath, ReadPath};

/// The most readers of one sandbox at a time; others wait.
const READERS_MAX: usize = 4;

/// How long a reader may take for an answer, or for the next bytes of a file.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// The most entries of a listing, and the most bytes of their payloads. The reader has the same
/// bounds.
const ENTRIES_MAX: usize = 20_000;
const ENTRIES_BYTES_MAX: usize = 4 << 20;

/// How much of a file without a size is read, such as those of /proc; the reader's own bound.
const SIZELESS_BYTES_MAX: u64 = 1 << 20;

/// The turns of a sandbox's readers.
#[derive(Debug)]
pub(crate) struct Readers(Arc<Semaphore>);

impl Default for Readers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(READERS_MAX)))
    }
}

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsideListing {
    /// Sorted by path, part by part.
    pub entries: Vec<InsideEntry>,
    /// Whether there was more than one listing holds.
    pub truncated: bool,
}

impl Sandbox {
    /// Describes what a path names; of a link, the link itself and where it leads.
    pub async fn inside_stat(&self, path: &InsidePath) -> Result<InsideEntry, FileError> {
        let mut reader = Connection::open(self, path, vec!["stat".to_owned()]).await?;
        let Frame::Entry(entry) = reader.frame().await? else { return Err(reader.broken()) };
        Ok(*entry)
    }

    /// Lists a directory, which may be reached by links; with a depth above 1, what is in its
    /// directories too. The depth is at most [`DEPTH_MAX`].
    pub async fn inside_list(
        &self,
        path: &InsidePath,
        depth: usize,
    ) -> Result<InsideListing, FileError> {
        let depth = depth.clamp(1, DEPTH_MAX).to_string();
        let mut reader = Connection::open(self, path, vec!["list".to_owned(), depth]).await?;
        let mut entries = Vec::new();
        // For the whole listing: a guest that sends an entry each second would hold it for hours.
        let deadline = Instant::now() + ANSWER_PATIENCE;
        let truncated = loop {
            match reader.frame_until(deadline).await? {
                Frame::Complete { truncated } => break truncated,
                Frame::Entry(_)
                    if entries.len() == ENTRIES_MAX || reader.taken > ENTRIES_BYTES_MAX =>
                {
                    break true;
                }
                Frame::Entry(entry) => entries.push(*entry),
                Frame::Failed(_) => return Err(reader.broken()),
            }
        };
        entries
            .sort_by(|a: &InsideEntry, b| a.listed.path.split('/').cmp(b.listed.path.split('/')));
        Ok(InsideListing { entries, truncated })
    }

    /// Opens a file for reading, which may be reached by links.
    pub async fn inside_read(&self, path: &InsidePath) -> Result<InsideReader, FileError> {
        let mut reader = Connection::open(self, path, vec!["read".to_owned()]).await?;
        let Frame::Entry(entry) = reader.frame().await? else { return Err(reader.broken()) };
        let stat = entry.listed.stat;
        Ok(InsideReader { reader, range: None, stat })
    }
}

/// A file that a process in the sandbox reads, at constant memory.
#[derive(Debug)]
pub struct InsideReader {
    reader: Connection,
    /// What is still to come; `None` until the first piece.
    range: Option<(u64, u64)>,
    stat: FileStat,
}

impl InsideReader {
    /// Returns what the file is; its size is that of the moment it was opened.
    pub fn stat(&self) -> &FileStat {
        &self.stat
    }

    /// Returns how many bytes are still to come.
    pub fn left(&self) -> u64 {
        let (start, end) = self.range.unwrap_or((0, self.stat.size));
        end - start
    }

    /// Reads only a part of the file; must be called before the first piece is read. Refused if no
    /// byte of it is in the file.
    pub fn select(&mut self, range: Range) -> Result<(), FileError> {
        let size = self.stat.size;
        let end = range.end.unwrap_or(size).min(size);
        if range.start >= end {
            return Err(FileError::Range { path: self.reader.path.clone(), size });
        }
        self.range = Some((range.start, end));
        Ok(())
    }

    /// Reads the next piece; an empty one at the end. A file that became shorter is an error.
    pub async fn next(&mut self) -> Result<Vec<u8>, FileError> {
        let (start, end) = self.range.unwrap_or((0, self.stat.size));
        if let Some(mut input) = self.reader.input.take() {
            let asked = [start.to_le_bytes(), end.to_le_bytes()].concat();
            let writing = tokio::time::timeout(ANSWER_PATIENCE, input.write_all(&asked));
            match writing.await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(self.reader.broken()),
            }
        }
        if start == end {
            return Ok(Vec::new());
        }
        let most = usize::try_from(end - start).unwrap_or(usize::MAX);
        let piece = self.reader.bytes(most).await?;
        if piece.is_empty() {
            return Err(FileError::Shrunk(self.reader.path.clone()));
        }
        self.range = Some((start + piece.len() as u64, end));
        Ok(piece)
    }
}

/// A running reader; dropping it kills the process.
#[derive(Debug)]
struct Connection {
    process: CommandProcess,
    input: Option<CommandInput>,
    path: String,
    /// Bytes that were received but not decoded yet.
    received: Vec<u8>,
    /// How many bytes of frames were decoded.
    taken: usize,
    _turn: OwnedSemaphorePermit,
}

impl Connection {
    async fn open(
        sandbox: &Sandbox,
        path: &InsidePath,
        mut arguments: Vec<String>,
    ) -> Result<Self, FileError> {
        let shown = path.to_string();
        let busy =
            || FileError::Unanswered { path: shown.clone(), reason: "others are being read" };
        let turn = Arc::clone(&sandbox.readers.0).acquire_owned();
        let turn = tokio::time::timeout(START_PATIENCE, turn).await.map_err(|_| busy())?;
        let turn = turn.map_err(|_| busy())?;
        arguments.push(path.as_str().to_owned());
        let mut spec = CommandSpec::program(sandbox.reader_program().iter().cloned());
        spec.arguments.extend(arguments);
        "/".clone_into(&mut spec.directory);
        spec.stdin = Stdin::Piped;
        let process = sandbox.start_command(&spec).await;
        let mut process = process.map_err(|error| not_started(&shown, &error))?;
        let input = process.take_input();
        Ok(Self { process, input, path: shown, received: Vec::new(), taken: 0, _turn: turn })
    }

    /// Waits for the one frame of a short answer.
    async fn frame(&mut self) -> Result<Frame, FileError> {
        self.frame_until(Instant::now() + ANSWER_PATIENCE).await
    }

    /// Waits for a frame; one that reports an error is an error.
    async fn frame_until(&mut self, deadline: Instant) -> Result<Frame, FileError> {
        loop {
            match self.take_frame() {
                Ok(Some(Frame::Failed(errno))) => return Err(self.failed(errno)),
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => {}
                Err(Malformed) => return Err(self.broken()),
            }
            let more = self.receive(deadline).await?;
            if more.is_empty() {
                return Err(unanswered(&self.path, "the process that reads it was ended"));
            }
            self.received.extend_from_slice(&more);
        }
    }

    /// Decodes the next frame; `None` if it has not been received yet.
    fn take_frame(&mut self) -> Result<Option<Frame>, Malformed> {
        let Some(head) = self.received.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let (kind, length) = frame::head(*head)?;
        let end = HEAD_BYTES + length;
        let Some(payload) = self.received.get(HEAD_BYTES..end) else { return Ok(None) };
        let frame = frame::decode(kind, payload)?;
        self.received.drain(..end);
        self.taken = self.taken.saturating_add(end);
        Ok(Some(frame))
    }

    /// Returns at most so many of the bytes that come next; none at the end.
    async fn bytes(&mut self, most: usize) -> Result<Vec<u8>, FileError> {
        let mut piece = std::mem::take(&mut self.received);
        if piece.is_empty() {
            piece = self.receive(Instant::now() + ANSWER_PATIENCE).await?;
        }
        // More than was asked for is not the file.
        piece.truncate(most);
        Ok(piece)
    }

    /// Waits for bytes on stdout; none at its end. What it writes to stderr is dropped.
    async fn receive(&mut self, deadline: Instant) -> Result<Vec<u8>, FileError> {
        loop {
            let event = timeout_at(deadline, self.process.next()).await;
            match event.map_err(|_| unanswered(&self.path, "it takes too long"))? {
                Some(CommandEvent::Stdout(bytes)) => return Ok(bytes),
                Some(CommandEvent::Stderr(_)) => {}
                // Everything that it wrote has been received.
                Some(CommandEvent::Ended(_)) | None => return Ok(Vec::new()),
            }
        }
    }

    fn failed(&self, errno: i32) -> FileError {
        match Errno::from_raw_os_error(errno) {
            Errno::FBIG => {
                FileError::TooLarge { path: self.path.clone(), bytes_max: SIZELESS_BYTES_MAX }
            }
            errno => match FileError::of("read", &self.path, errno) {
                // The guest can send any number: this is no failure of the host.
                FileError::System { .. } => unanswered(&self.path, "the kernel refuses it"),
                error => error,
            },
        }
    }

    fn broken(&self) -> FileError {
        unanswered(&self.path, "the answer is malformed")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.process.handle().clone().kill_in_background();
    }
}

fn unanswered(path: &str, reason: &'static str) -> FileError {
    FileError::Unanswered { path: path.to_owned(), reason }
}

fn not_started(path: &str, error: &CommandError) -> FileError {
    let reason = match error {
        CommandError::TooMany => "the sandbox runs too many commands",
        CommandError::SandboxDied => "the sandbox has ended",
        _ => "no process could be started in the sandbox to read it",
    };
    tracing::debug!(error = error as &dyn std::error::Error, "a reader could not be started");
    unanswered(path, reason)
}

/// For `tests/fuzz`: decodes bytes as a head, and as a frame of the kind that the first byte names.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(data: &[u8]) {
    if let Some(head) = data.first_chunk::<HEAD_BYTES>()
        && let Ok((_, length)) = frame::head(*head)
    {
        assert!(length <= frame::FRAME_BYTES_MAX);
    }
    if let Some((kind, payload)) = data.split_first() {
        drop(frame::decode(*kind, payload));
    }
}
