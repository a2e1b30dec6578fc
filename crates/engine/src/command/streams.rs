//! The host's ends of a command's streams: pipes, or one side of a terminal. Owns the order of
//! output and end, and must never hold more output than one chunk.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::Winsize;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use super::starting::Completed;
use super::{CommandEnd, CommandEvent, Permit, Stdin, TerminalSize, ended};

/// The largest piece of output that is handed on at once.
const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// How much is taken from one stream after a command's end before the end is reported: what a pipe
/// can hold by the kernel's default limit. Children that go on writing cannot put the end off for
/// longer.
// /proc/sys/fs/pipe-max-size: a program may enlarge its pipe up to this (pipe(7)).
const DRAIN_BYTES_MAX: usize = 1024 * 1024;

/// Our ends of the pipes of a command without a terminal.
pub(super) struct Pipes {
    stdin: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

impl Pipes {
    /// Makes them; the other ends go to `theirs`, in the order stdout, stderr, stdin.
    pub(super) fn make(stdin: Stdin, theirs: &mut Vec<OwnedFd>) -> io::Result<Self> {
        let mut receiver = || -> io::Result<pipe::Receiver> {
            // Close-on-exec: a program started by this process would otherwise keep the pipe from
            // ending. Tokio makes our end non-blocking; pipe2(2) would do so for the command's end
            // as well.
            let (ours, other) = pipe_with(PipeFlags::CLOEXEC)?;
            theirs.push(other);
            pipe::Receiver::from_owned_fd(ours)
        };
        let (stdout, stderr) = (receiver()?, receiver()?);
        let stdin = match stdin {
            Stdin::Closed => None,
            Stdin::Piped => {
                let (other, ours) = pipe_with(PipeFlags::CLOEXEC)?;
                theirs.push(other);
                Some(pipe::Sender::from_owned_fd(ours)?)
            }
        };
        Ok(Self { stdin, stdout, stderr })
    }

    pub(super) fn split(self, permit: Permit) -> (Option<CommandInput>, Output) {
        let input = self.stdin.map(|sink| CommandInput { sink, _permit: Arc::clone(&permit) });
        let sources = vec![(Kind::Stdout, self.stdout), (Kind::Stderr, self.stderr)];
        (input, Output::new(sources, permit))
    }
}

/// Returns both directions of a terminal, and what resizes it.
pub(super) fn terminal(fd: OwnedFd, permit: Permit) -> io::Result<Completed> {
    // Once for all three: duplicates share one open file description, and O_NONBLOCK with it.
    rustix::io::ioctl_fionbio(&fd, true)?;
    // A pipe to Tokio is a file that can be waited for, which a terminal is too.
    let source = pipe::Receiver::from_file_unchecked(fd.try_clone()?.into())?;
    let sink = pipe::Sender::from_file_unchecked(fd.try_clone()?.into())?;
    let input = CommandInput { sink, _permit: Arc::clone(&permit) };
    let output = Output::new(vec![(Kind::Stdout, source)], Arc::clone(&permit));
    Ok((Some(input), output, Some(Arc::new(Terminal { fd, _permit: permit }))))
}

/// Where to write what a command reads.
#[derive(Debug)]
pub struct CommandInput {
    sink: pipe::Sender,
    _permit: Permit,
}

impl CommandInput {
    /// Writes all of it, at the command's pace; fails when no process can read it any more.
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sink.write_all(bytes).await
    }
}

/// The host's side of a terminal. The terminal hangs up when the last reference is dropped.
#[derive(Debug)]
pub(super) struct Terminal {
    fd: OwnedFd,
    _permit: Permit,
}

impl Terminal {
    pub(super) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        Ok(rustix::termios::tcsetwinsize(&self.fd, winsize(size))?)
    }
}

/// Converts a terminal's size to what the kernel takes; the size in pixels is unknown.
fn winsize(size: TerminalSize) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// The stream that a source's bytes belong to.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Stdout,
    Stderr,
}

impl Kind {
    fn event(self, bytes: &[u8]) -> CommandEvent {
        match self {
            Self::Stdout => CommandEvent::Stdout(bytes.to_vec()),
            Self::Stderr => CommandEvent::Stderr(bytes.to_vec()),
        }
    }
}

/// What of a command's life has been reported.
#[derive(Debug)]
enum Stage {
    Running,
    /// It has ended; what it left in each source is being taken, up to so many bytes.
    Draining {
        end: CommandEnd,
        source: usize,
        left: usize,
    },
    /// The end was reported.
    Over,
}

/// Everything a command writes, and its end among it.
#[derive(Debug)]
pub(super) struct Output {
    sources: Vec<(Kind, pipe::Receiver)>,
    stage: Stage,
    buffer: Vec<u8>,
    _permit: Permit,
}

impl Output {
    fn new(sources: Vec<(Kind, pipe::Receiver)>, permit: Permit) -> Self {
        // The only memory that output takes in the engine: a command whose output is not read waits
        // (docs/design/output-waits.md).
        let buffer = vec![0; CHUNK_BYTES_MAX];
        Self { sources, stage: Stage::Running, buffer, _permit: permit }
    }

    /// Returns whether nothing can be written any more.
    pub(super) fn is_closed(&self) -> bool {
        self.sources.is_empty()
    }

    /// Waits for what comes next: output, the end, output of what it left behind, and then nothing.
    pub(super) async fn next(
        &mut self,
        life: &mut watch::Receiver<Option<CommandEnd>>,
    ) -> Option<CommandEvent> {
        loop {
            match self.stage {
                Stage::Running => {
                    tokio::select! {
                        // The end first: children may write for ever.
                        biased;
                        end = ended(life) => {
                            self.stage = Stage::Draining { end, source: 0, left: DRAIN_BYTES_MAX };
                        }
                        source = ready(&self.sources), if !self.sources.is_empty() => {
                            if let Some(event) = self.take(source) {
                                return Some(event);
                            }
                        }
                    }
                }
                Stage::Draining { end, source, left } => {
                    if let Some(event) = self.drain(end, source, left) {
                        return Some(event);
                    }
                }
                // Children of the command may hold the pipes and go on writing after its end.
                Stage::Over if self.sources.is_empty() => return None,
                Stage::Over => {
                    let source = ready(&self.sources).await;
                    if let Some(event) = self.take(source) {
                        return Some(event);
                    }
                }
            }
        }
    }

    /// Takes from a source that is ready; drops one that has come to its end.
    fn take(&mut self, index: usize) -> Option<CommandEvent> {
        let read = self.sources[index].1.try_read(&mut self.buffer);
        self.taken(index, read)
    }

    /// Takes from a source that may be ready without Tokio having noticed yet.
    fn take_now(&mut self, index: usize) -> Option<CommandEvent> {
        let source = &self.sources[index].1;
        let read = rustix::io::retry_on_intr(|| rustix::io::read(source, &mut *self.buffer));
        self.taken(index, read.map_err(io::Error::from))
    }

    fn taken(&mut self, index: usize, read: io::Result<usize>) -> Option<CommandEvent> {
        match read {
            Ok(length) if length > 0 => Some(self.sources[index].0.event(&self.buffer[..length])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            // A terminal without a process answers EIO; nothing else is expected.
            Ok(_) | Err(_) => {
                self.sources.remove(index);
                None
            }
        }
    }

    /// Takes what one source holds, goes on to the next when it is empty, and at last reports the
    /// end.
    fn drain(&mut self, end: CommandEnd, source: usize, left: usize) -> Option<CommandEvent> {
        if source >= self.sources.len() {
            self.stage = Stage::Over;
            return Some(CommandEvent::Ended(end));
        }
        let before = self.sources.len();
        let event = self.take_now(source);
        let taken = match &event {
            Some(CommandEvent::Stdout(bytes) | CommandEvent::Stderr(bytes)) => bytes.len(),
            Some(CommandEvent::Ended(_)) | None => 0,
        };
        let removed = self.sources.len() < before;
        let next = if taken > 0 && left > taken {
            (source, left - taken)
        } else {
            // One that came to its end has given its place to the next.
            (if removed { source } else { source + 1 }, DRAIN_BYTES_MAX)
        };
        self.stage = Stage::Draining { end, source: next.0, left: next.1 };
        event
    }
}

/// Waits until one of the sources can be read, and returns its index.
async fn ready(sources: &[(Kind, pipe::Receiver)]) -> usize {
    match sources {
        [(_, one)] => {
            // What is wrong with a source shows when it is read.
            let _ = one.readable().await;
            0
        }
        [(_, one), (_, other), ..] => tokio::select! {
            _ = one.readable() => 0,
            _ = other.readable() => 1,
        },
        [] => std::future::pending().await,
    }
}
