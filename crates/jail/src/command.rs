//! Commands: programs that run in an enclosure beside its interpreters.
//!
//! Owns the command line, what the entering process does between being locked in and executing the
//! program, and the messages in which it reports to the engine how that went. They are sent on a
//! socket that only our own code ever holds: executing the program closes it. So if the socket
//! closes after `entered`, without `refused`, the program runs.
//!
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
pub struct WindowSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl WindowSize {
    /// Converts it to the kernel's structure.
    pub fn as_winsize(self) -> Winsize {
        Winsize { ws_row: self.rows, ws_col: self.columns, ws_xpixel: 0, ws_ypixel: 0 }
    }
}

/// What a command reads from and writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Streams {
    /// Pipes for output; /dev/null for input.
    Output,
    /// Pipes for output and input.
    OutputAndInput,
    /// A terminal of the enclosure's own devpts, opened while the command starts.
    Terminal(WindowSize),
}

impl Streams {
    /// How many descriptors come with the request: the report socket, then stdout, stderr and
    /// stdin.
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

/// The steps between being locked in and executing the program, in order. Their numbers follow
/// those of the gate's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Changing to the directory.
    Directory = 11,
    /// Opening its terminal.
    Terminal = 12,
    /// Executing the program.
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

/// A message of an entering process.
#[derive(Debug)]
pub enum Word {
    /// It is locked in and about to execute the program.
    Entered {
        /// Its pid, as seen inside.
        process_id: u32,
        /// The master side of its terminal, if it has one.
        terminal: Option<OwnedFd>,
    },
    /// A step failed, and the process exits.
    Refused {
        /// The step that failed.
        step: String,
        /// The kernel's reason.
        errno: i32,
    },
    /// The socket was closed: the program runs, or the process has ended.
    Nothing,
}

/// Returns the two ends of a report socket: the engine's, which does not block, and the entering
/// process's.
pub fn report() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = protocol::pair()?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Reads the next message of a report socket. The error is of kind `WouldBlock` if there is none
/// yet.
pub fn hear(report: impl AsFd) -> io::Result<Word> {
    let mut packet = [0; WORD_BYTES_MAX];
    let Some((length, mut fds)) = protocol::receive(report, &mut packet)? else {
        return Ok(Word::Nothing);
    };
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let head = packet[..length].get(FRAME_BYTES..).ok_or_else(invalid)?;
    match protocol::parse(head)? {
        ReportMessage::Entered { process_id } => {
            Ok(Word::Entered { process_id, terminal: fds.pop() })
        }
        ReportMessage::Refused { step, errno } => Ok(Word::Refused { step, errno }),
    }
}

/// The longest message.
const WORD_BYTES_MAX: usize = 512;

/// The gate reports failures as frames of the guest protocol, which begin with two lengths.
const FRAME_BYTES: usize = 8;

/// A message as it is encoded in a packet.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ReportMessage {
    Entered { process_id: u32 },
    Refused { step: String, errno: i32 },
}

fn send_report(
    report: &OwnedFd,
    message: &ReportMessage,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let head = serde_json::to_vec(message).map_err(io::Error::other)?;
    let mut packet = (head.len() as u32).to_le_bytes().to_vec();
    packet.extend(0_u32.to_le_bytes());
    packet.extend(head);
    protocol::send_bytes(report, &packet, fds)
}

/// A command line as the system calls take it. It is made before the fork.
pub(crate) struct PreparedCommand {
    pub(crate) directory: CString,
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) streams: Streams,
    pub(crate) fail_at: u32,
}

/// In the entering process, locked in: executes the program. Returns only on failure, after it has
/// reported the step that failed.
pub(crate) fn run(command: &PreparedCommand) {
    let report = sys::take_control();
    // Kept to the end: closing the master side hangs up the terminal, which would end this process
    // by SIGHUP before it has reported.
    let mut terminal = None;
    let Err((step, error)) = try_run(command, &report, &mut terminal);
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    // If this cannot be sent, the engine has gone, and the zone ends.
    let _ =
        send_report(&report, &ReportMessage::Refused { step: step.name().to_owned(), errno }, &[]);
}

fn try_run(
    command: &PreparedCommand,
    report: &OwnedFd,
    terminal: &mut Option<OwnedFd>,
) -> Result<Infallible, (Step, io::Error)> {
    let fault = |step: Step| match command.fail_at {
        number if number == step as u32 => Err((step, io::Error::from_raw_os_error(libc::EIO))),
        _ => Ok(()),
    };
    let failed = |step: Step| move |error: io::Error| (step, error);
    fault(Step::Directory)?;
    rustix::process::chdir(command.directory.as_c_str())
        .map_err(|errno| (Step::Directory, errno.into()))?;
    fault(Step::Terminal)?;
    if let Streams::Terminal(size) = command.streams {
        open_terminal(size, terminal).map_err(failed(Step::Terminal))?;
    }
    fault(Step::Exec)?;
    let process_id = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned();
    let fds: Vec<BorrowedFd<'_>> = terminal.iter().map(AsFd::as_fd).collect();
    send_report(report, &ReportMessage::Entered { process_id }, &fds)
        .map_err(failed(Step::Exec))?;
    sys::default_signals();
    Err((Step::Exec, execute(&command.arguments, &command.environment)))
}

/// Opens a terminal of the enclosure's own devpts and makes it the controlling terminal and the
/// standard streams. Leaves its master side in `other_side`.
fn open_terminal(size: WindowSize, other_side: &mut Option<OwnedFd>) -> io::Result<()> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let other_side = other_side.insert(rustix::pty::openpt(flags)?);
    rustix::pty::unlockpt(&*other_side)?;
    // By the descriptor and not by the name: another process could use that name first.
    let terminal = rustix::pty::ioctl_tiocgptpeer(other_side, flags)?;
    rustix::termios::tcsetwinsize(&terminal, size.as_winsize())?;
    let mut modes = rustix::termios::tcgetattr(&terminal)?;
    // So that the erase character removes a whole UTF-8 character.
    modes.input_modes |= InputModes::IUTF8;
    rustix::termios::tcsetattr(&terminal, OptionalActions::Now, &modes)?;
    // The gate has made this process the leader of a session without a controlling terminal.
    rustix::process::ioctl_tiocsctty(&terminal)?;
    rustix::stdio::dup2_stdin(&terminal)?;
    rustix::stdio::dup2_stdout(&terminal)?;
    rustix::stdio::dup2_stderr(&terminal)?;
    Ok(())
}

/// How many directories of `PATH` are searched.
const PATH_DIRECTORIES_MAX: usize = 64;

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
            // As a shell does: a later directory may hold a program that can be executed.
            Some(libc::EACCES) => reason = error,
            _ => return error,
        }
    }
    reason
}

/// Returns the paths at which a program of this name may be, in the order of `PATH`.
fn candidates(name: &[u8], environment: &[CString]) -> Vec<CString> {
    let path = environment.iter().find_map(|variable| variable.as_bytes().strip_prefix(b"PATH="));
    path.unwrap_or_default()
        .split(|&byte| byte == b':')
        // An empty entry would mean the working directory, which is hardly ever intended.
        .filter(|directory| !directory.is_empty() && !name.is_empty())
        .take(PATH_DIRECTORIES_MAX)
        .map(|directory| [directory, b"/", name, b"\0"].concat())
        .filter_map(|path| CStr::from_bytes_with_nul(&path).ok().map(CStr::to_owned))
        .collect()
}
