//! Commands: programs run in an enclosure that stands, beside whatever runs there already.
//!
//! Owns what is asked for, what the entering process does between being locked in and becoming the
//! program, and the words in which it tells the engine how that went. They travel on a socket that
//! only our own code ever holds: the start of the program closes it. So its end after the word
//! *entered*, and without a refusal, means that the program runs.
//! Tests: `tests/it/engine/commands.rs`.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions, Winsize};
use serde::{Deserialize, Serialize};

use crate::protocol::{self, Program};
use crate::sys;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl TerminalSize {
    /// The same as the kernel wants it.
    pub fn as_winsize(self) -> Winsize {
        Winsize { ws_row: self.rows, ws_col: self.columns, ws_xpixel: 0, ws_ypixel: 0 }
    }
}

/// What a command reads from and writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Streams {
    /// Pipes for output; nothing to read.
    Output,
    /// Pipes for output and input.
    OutputAndInput,
    /// A terminal of the enclosure's own, made while the command starts.
    Terminal(TerminalSize),
}

impl Streams {
    /// How many descriptors come with the request: the report, then stdout, stderr and stdin.
    pub(crate) fn descriptors(self) -> usize {
        match self {
            Self::Terminal(_) => 1,
            Self::Output => 3,
            Self::OutputAndInput => 4,
        }
    }
}

/// What to run and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandLine {
    /// The program; a name without a slash is looked for along `PATH`, inside.
    pub program: Program,
    /// The directory to start in, as seen inside.
    pub directory: String,
    /// What it reads from and writes to.
    pub streams: Streams,
}

/// What an entered process does before it is the program, in order; the gate's steps come before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Going to the directory.
    Directory = 11,
    /// Making its terminal.
    Terminal = 12,
    /// Becoming the program.
    Exec = 13,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 3] = [Self::Directory, Self::Terminal, Self::Exec];

    /// The name used in refusals.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory => "enter-directory",
            Self::Terminal => "enter-terminal",
            Self::Exec => "enter-exec",
        }
    }
}

/// What an entering process says.
#[derive(Debug)]
pub enum Word {
    /// It is locked in and about to become the program.
    Entered {
        /// Its number, as seen inside.
        process_id: u32,
        /// The engine's side of its terminal, if it was to have one.
        terminal: Option<OwnedFd>,
    },
    /// It gave up.
    Refused {
        /// The step that failed.
        step: String,
        /// The kernel's reason.
        errno: i32,
    },
    /// It says no more: the program runs, or the process has ended.
    Nothing,
}

/// Two ends of a report: the engine's, which does not block, and the entering process's.
pub fn report() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = protocol::pair()?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Reads the next word of a report; an error of kind `WouldBlock` when there is none yet.
pub fn hear(report: impl AsFd) -> io::Result<Word> {
    let mut packet = [0; WORD_BYTES_MAX];
    let Some((length, mut fds)) = protocol::receive(report, &mut packet)? else {
        return Ok(Word::Nothing);
    };
    let unclear = || io::Error::from(io::ErrorKind::InvalidData);
    let head = packet[..length].get(FRAME_BYTES..).ok_or_else(unclear)?;
    match protocol::parse(head)? {
        Said::Entered { process_id } => Ok(Word::Entered { process_id, terminal: fds.pop() }),
        Said::Refused { step, errno } => Ok(Word::Refused { step, errno }),
    }
}

/// More than any word is long.
const WORD_BYTES_MAX: usize = 512;

/// The gate frames its refusals as the guest's protocol does: two lengths come first.
const FRAME_BYTES: usize = 8;

/// A word as it stands in a packet.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Said {
    Entered { process_id: u32 },
    Refused { step: String, errno: i32 },
}

fn say(report: &OwnedFd, said: &Said, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let head = serde_json::to_vec(said).map_err(io::Error::other)?;
    let mut packet = (head.len() as u32).to_le_bytes().to_vec();
    packet.extend(0_u32.to_le_bytes());
    packet.extend(head);
    protocol::send_bytes(report, &packet, fds)
}

/// A command line as the kernel wants it, made before the fork.
pub(crate) struct Errand {
    pub(crate) directory: CString,
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) streams: Streams,
    pub(crate) fail_at: u32,
}

/// In the entering process, locked in: becomes the program. Returns only if it could not, and has
/// said so then.
pub(crate) fn carry_out(errand: &Errand) {
    let report = sys::take_control();
    // Kept to the end: closing it hangs the terminal up, which would end this process before its word.
    let mut terminal = None;
    let Err((step, error)) = try_carry_out(errand, &report, &mut terminal);
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    // An engine that has gone takes the whole zone along.
    let _ = say(&report, &Said::Refused { step: step.name().to_owned(), errno }, &[]);
}

fn try_carry_out(
    errand: &Errand,
    report: &OwnedFd,
    terminal: &mut Option<OwnedFd>,
) -> Result<Infallible, (Step, io::Error)> {
    let fault = |step: Step| match errand.fail_at {
        number if number == step as u32 => Err((step, io::Error::from_raw_os_error(libc::EIO))),
        _ => Ok(()),
    };
    let failed = |step: Step| move |error: io::Error| (step, error);
    fault(Step::Directory)?;
    rustix::process::chdir(errand.directory.as_c_str())
        .map_err(|errno| (Step::Directory, errno.into()))?;
    fault(Step::Terminal)?;
    if let Streams::Terminal(size) = errand.streams {
        take_terminal(size, terminal).map_err(failed(Step::Terminal))?;
    }
    fault(Step::Exec)?;
    let process_id = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned();
    let fds: Vec<BorrowedFd<'_>> = terminal.iter().map(AsFd::as_fd).collect();
    say(report, &Said::Entered { process_id }, &fds).map_err(failed(Step::Exec))?;
    sys::default_signals();
    Err((Step::Exec, execute(&errand.arguments, &errand.environment)))
}

/// Makes a terminal of the enclosure's own devpts and sits down at it; leaves its other side behind.
fn take_terminal(size: TerminalSize, other_side: &mut Option<OwnedFd>) -> io::Result<()> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let other_side = other_side.insert(rustix::pty::openpt(flags)?);
    rustix::pty::unlockpt(&*other_side)?;
    // By the descriptor and not by its name: a name could be taken by another.
    let terminal = rustix::pty::ioctl_tiocgptpeer(other_side, flags)?;
    rustix::termios::tcsetwinsize(&terminal, size.as_winsize())?;
    let mut modes = rustix::termios::tcgetattr(&terminal)?;
    // So that erasing takes back a whole character.
    modes.input_modes |= InputModes::IUTF8;
    rustix::termios::tcsetattr(&terminal, OptionalActions::Now, &modes)?;
    // The gate has made this process the leader of a session without a terminal.
    rustix::process::ioctl_tiocsctty(&terminal)?;
    rustix::stdio::dup2_stdin(&terminal)?;
    rustix::stdio::dup2_stdout(&terminal)?;
    rustix::stdio::dup2_stderr(&terminal)?;
    Ok(())
}

/// How many places of `PATH` are looked at.
const PATH_PLACES_MAX: usize = 64;

/// Replaces this process by the program its first argument names; returns only on failure.
fn execute(arguments: &[CString], environment: &[CString]) -> io::Error {
    let name = arguments[0].as_bytes();
    if name.contains(&b'/') {
        return sys::execute(&arguments[0], arguments, environment);
    }
    let mut reason = io::Error::from_raw_os_error(libc::ENOENT);
    for candidate in candidates(name, environment) {
        let error = sys::execute(&candidate, arguments, environment);
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            // As an enclosure does: another place may hold one that can be run.
            Some(libc::EACCES) => reason = error,
            _ => return error,
        }
    }
    reason
}

/// Where a program of this name may lie, in the order of `PATH`.
fn candidates(name: &[u8], environment: &[CString]) -> Vec<CString> {
    let path = environment.iter().find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
    path.unwrap_or_default()
        .split(|&byte| byte == b':')
        // A place without a name would be the working directory, which nobody means.
        .filter(|place| !place.is_empty() && !name.is_empty())
        .take(PATH_PLACES_MAX)
        .map(|place| [place, b"/", name, b"\0"].concat())
        .filter_map(|path| CStr::from_bytes_with_nul(&path).ok().map(CStr::to_owned))
        .collect()
}
