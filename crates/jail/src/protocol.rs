//! What the engine and the zone master say to each other, and the packets it travels in.
//!
//! One packet of a `SOCK_SEQPACKET` socket is one message, as JSON, with its descriptors beside it.
//! Requests carry a number that their reply repeats; events carry none.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cgroup::host::CgroupParent;
use crate::cgroup::{Gauge, Usage};
use crate::command::CommandLine;

/// The longest packet.
pub(crate) const PACKET_BYTES_MAX: usize = 128 * 1024;

/// The most descriptors beside one packet.
pub(crate) const PACKET_FDS_MAX: usize = 32;

/// What is baked into an enclosure. Two enclosures with equal specifications are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnclosureSpec {
    /// The template, by the name it was added under.
    pub template: String,
    /// Memory of all processes and files together.
    pub memory_bytes: u64,
    /// Thousandths of one processor.
    pub cpu_millis: u32,
    /// Processes and threads.
    pub processes: u32,
    /// Open files of one process.
    pub open_files: u32,
    /// All writable files together.
    pub disk_bytes: u64,
    /// One file.
    pub file_bytes: u64,
    /// Processor seconds of one process, for hosts without cgroups.
    pub cpu_seconds: u64,
}

/// Where a directory or file comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The next descriptor beside the packet is a detached mount of it.
    Mount,
    /// The zone master finds it on the host by this path (it runs as the same user).
    Path(PathBuf),
}

/// A host directory shown at the same path inside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SystemDirectory {
    /// Its path, on the host and inside.
    pub path: String,
    /// How the zone gets it.
    pub source: Source,
}

/// What a template looks like to the jail.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TemplateLayers {
    /// Its name.
    pub name: String,
    /// The layer above the root, with our code in the guest.
    pub guest: Source,
    /// The root file tree.
    pub root: Source,
    /// Host directories shown read-only.
    pub system: Vec<SystemDirectory>,
}

/// A read-only input of a sandbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputMount {
    /// The file or directory name below /data/input.
    pub name: String,
    /// How the zone gets it.
    pub source: Source,
    /// Whether it is a directory.
    pub directory: bool,
}

/// A program to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Program {
    /// Path and arguments; the first is the path.
    pub arguments: Vec<String>,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
}

/// Where an interpreter in an enclosure comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A fork of the template's zygote.
    Zygote,
    /// A program of its own, never forked from anything warm.
    Program(Program),
}

/// What the engine asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneRequest {
    /// Makes a template known; descriptors in the order guest, root, system.
    AddTemplate(TemplateLayers),
    /// Keeps a zygote of the template running from now on.
    StartZygote {
        /// The template.
        template: String,
        /// The program.
        program: Program,
        /// Replace it after this many forks.
        forks_max: u64,
        /// Replace it after this long.
        age_ms_max: u64,
    },
    /// Makes an enclosure; descriptors are the inputs. The reply brings the directory that
    /// holds `workspace`, `home` and `tmp`, and a file for each gauge.
    CreateEnclosure {
        /// The engine's number for it.
        enclosure: u64,
        /// What is baked in.
        spec: EnclosureSpec,
        /// Read-only inputs.
        inputs: Vec<InputMount>,
        /// For tests: the step that fails.
        fail_at: u32,
    },
    /// Puts an interpreter into an enclosure; descriptors are control, stdout, stderr.
    Enter {
        /// The enclosure.
        enclosure: u64,
        /// The engine's number for the interpreter.
        kernel: u64,
        /// Fork or program.
        origin: Origin,
        /// For tests: the step that fails.
        fail_at: u32,
    },
    /// Sends a signal to an interpreter.
    Signal {
        /// The interpreter.
        kernel: u64,
        /// The signal.
        signal: i32,
    },
    /// Starts a command in an enclosure; descriptors are its report, then stdout, stderr and stdin as far
    /// as its streams are pipes. How the start went is told by the report.
    StartCommand {
        /// The enclosure.
        enclosure: u64,
        /// The engine's number for the command.
        command: u64,
        /// What to run.
        line: CommandLine,
        /// For tests: the step that fails.
        fail_at: u32,
    },
    /// Sends a signal to a command and all processes of its group.
    SignalCommand {
        /// The command.
        command: u64,
        /// The signal.
        signal: i32,
    },
    /// Kills everything in an enclosure; the reply comes when the kernel has been told.
    Kill {
        /// The enclosure.
        enclosure: u64,
    },
    /// Ends an enclosure and everything in it; the reply comes when nothing is left, but for its group, empty, perhaps.
    Destroy {
        /// The enclosure.
        enclosure: u64,
    },
}

/// A numbered request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NumberedRequest {
    pub(crate) number: u64,
    pub(crate) request: ZoneRequest,
}

/// Something that was asked for and could not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{step}: {message}")]
pub struct ZoneFailure {
    /// The step that failed, by a stable name.
    pub step: String,
    /// The system's reason.
    pub message: String,
    /// The error number, if there is one.
    pub errno: Option<i32>,
}

impl ZoneFailure {
    pub(crate) fn new(step: &str, error: &io::Error) -> Self {
        Self { step: step.to_owned(), message: error.to_string(), errno: error.raw_os_error() }
    }

    pub(crate) fn because(step: &str, message: impl Into<String>) -> Self {
        Self { step: step.to_owned(), message: message.into(), errno: None }
    }
}

/// What the zone master says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    Ready(ZoneFacts),
    Failed(ZoneFailure),
    Reply { number: u64, result: Result<ZoneReply, ZoneFailure> },
    Event(ZoneEvent),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneReply {
    /// It is done.
    Done,
    /// The enclosure stands. With it come its writable directory, and a file for each gauge.
    Enclosure {
        /// What measures it.
        gauges: Vec<Gauge>,
        /// What they show that is not to be counted.
        before: Usage,
    },
    /// The interpreter runs.
    Entered,
}

/// Something that happened without being asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneEvent {
    /// An interpreter ended.
    KernelExited {
        /// The interpreter.
        kernel: u64,
        /// How.
        exit: Exit,
    },
    /// A command ended.
    CommandExited {
        /// The command.
        command: u64,
        /// How.
        exit: Exit,
        /// How many processes of the enclosure were killed for lack of memory since it started.
        oom_kills: u64,
    },
    /// An enclosure's init ended without being told to. Kernels and commands that were killed along with
    /// it have no event of their own.
    EnclosureExited {
        /// The enclosure.
        enclosure: u64,
        /// What it had used by then.
        usage: Usage,
    },
    /// A zygote is ready to fork.
    ZygoteReady {
        /// Its template.
        template: String,
    },
    /// A zygote could not start.
    ZygoteFailed {
        /// Its template.
        template: String,
        /// Why, as far as it said.
        reason: String,
    },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// Reads a wait status.
    pub(crate) fn from_wait(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Status(libc::WEXITSTATUS(status))
        }
    }
}

/// What a zone found and enforces, the same for all its sandboxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneFacts {
    /// Whether each sandbox has a host user id of its own.
    pub unique_ids: bool,
    /// The cgroup hierarchies in use.
    pub cgroups: Vec<CgroupParent>,
    /// Whether swap is limited along with memory, or the host has none.
    pub swap_limited: bool,
    /// The kernel's Landlock version, 0 for none.
    pub landlock: u32,
}

/// What the zone is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ZoneConfig {
    /// Names the zone's groups.
    pub(crate) name: String,
    /// Where groups are made; empty for none.
    pub(crate) cgroups: Vec<CgroupParent>,
    /// The first of 65 536 host ids, or none to map only the caller's own.
    pub(crate) id_base: Option<u32>,
}

/// Two ends of a socket that keeps packets apart.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one packet.
pub(crate) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
    if bytes.len() > PACKET_BYTES_MAX {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    send_bytes(socket, &bytes, fds)
}

/// Sends the bytes of one packet.
pub(crate) fn send_bytes(
    socket: impl AsFd,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let parts = [io::IoSlice::new(bytes)];
    loop {
        match rustix::net::sendmsg(&socket, &parts, &mut ancillary, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}

/// Receives one packet; `None` when the other side has gone.
pub(crate) fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
) -> io::Result<Option<(usize, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PACKET_FDS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(buffer)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match rustix::net::recvmsg(&socket, &mut parts, &mut ancillary, flags) {
            // Reset: the other side closed without reading all we sent. The kernel says so once,
            // before it gives out what the other side had sent: its last words come with the next
            // call.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            other => break other?,
        }
    };
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    if received.bytes == 0 && fds.is_empty() {
        return Ok(None);
    }
    Ok(Some((received.bytes, fds)))
}

/// Receives one packet into memory of its own length: for whoever receives but one, and would touch
/// more pages to clear a buffer than for all else.
pub(crate) fn receive_one(socket: impl AsFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut nothing = [0_u8; 0];
    let length = loop {
        match rustix::net::recv(&socket, &mut nothing, RecvFlags::PEEK | RecvFlags::TRUNC) {
            // See `receive`.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            other => break other?.1,
        }
    };
    let mut packet = vec![0; length.min(PACKET_BYTES_MAX)];
    let received = receive(socket, &mut packet)?;
    Ok(received.map(|(length, fds)| {
        packet.truncate(length);
        (packet, fds)
    }))
}

/// Reads a message from a packet.
pub(crate) fn parse<T: DeserializeOwned>(packet: &[u8]) -> io::Result<T> {
    serde_json::from_slice(packet)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
