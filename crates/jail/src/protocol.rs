//! The messages between the engine and the zone master, and the packets they are sent in.
//!
//! One packet of a `SOCK_SEQPACKET` socket is one message, as JSON, with its descriptors as
//! ancillary data. Each request has a number, which its reply repeats; events have none.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cgroup::host::CgroupParent;
use crate::cgroup::{Gauge, GroupShare, GroupUsage};
use crate::command::CommandLine;

/// The longest packet.
pub(crate) const PACKET_BYTES_MAX: usize = 128 * 1024;

/// The most descriptors that come with one packet.
pub(crate) const PACKET_FDS_MAX: usize = 32;

/// The most sockets of one request.
pub const SOCKETS_MAX: usize = PACKET_FDS_MAX;

/// The most ranges of addresses of one request.
pub const PREFIXES_MAX: usize = 64;

/// The addresses that are local in an enclosure with sockets of the host, beside loopback. They are
/// reserved for tests of network devices (RFC 2544) and lead nowhere on the internet.
pub const SYNTHETIC: LocalPrefix =
    LocalPrefix { address: Ipv4Addr::new(198, 18, 0, 0), length: 15 };

/// The template and the limits of an enclosure. Two enclosures with equal specifications are
/// interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnclosureSpec {
    /// The template, by the name it was added under.
    pub template: String,
    /// Memory of all processes and writable files together.
    pub memory_bytes: u64,
    /// Thousandths of one processor.
    pub cpu_millis: u32,
    /// Processes and threads.
    pub processes: u32,
    /// Open files of one process.
    pub open_files: u32,
    /// Size of all writable files together.
    pub disk_bytes: u64,
    /// Size of one file.
    pub file_bytes: u64,
    /// Processor seconds of one process, in force only on hosts without cgroups.
    pub cpu_seconds: u64,
}

/// How the zone gets a directory or file of the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// By a detached mount: the next descriptor that comes with the packet.
    Mount,
    /// By this path on the host, as the same user; only in an unprivileged zone.
    Path(PathBuf),
}

/// A directory of the host that has the same path inside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SystemDirectory {
    /// Its path, on the host and inside.
    pub path: String,
    /// How the zone gets it.
    pub source: Source,
}

/// The file trees of a template.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TemplateLayers {
    /// Its name.
    pub name: String,
    /// The layer over the root, with our own code of the guest.
    pub guest: Source,
    /// The root file tree.
    pub root: Source,
    /// Directories of the host, read-only inside.
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
    /// A program of its own, started by `exec`.
    Program(Program),
    /// A fork of the template's zygote that becomes an image.
    Image,
}

/// A socket that is made in the network namespace of an enclosure and used outside. It does not
/// block, and belongs to that namespace for as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneSocket {
    /// A stream socket without an address, to be connected or bound later.
    Stream,
    /// A stream socket that listens.
    Listener {
        /// Where.
        address: SocketAddrV4,
        /// How many connections wait to be accepted.
        backlog: u16,
    },
    /// A datagram socket.
    Datagram {
        /// What it is bound to.
        address: SocketAddrV4,
    },
}

/// A range of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalPrefix {
    /// Its first address; all bits beyond `length` are zero.
    pub address: Ipv4Addr,
    /// How many bits all its addresses share.
    pub length: u8,
}

/// A request of the engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneRequest {
    /// Adds a template. Descriptors: the mounts of guest, root and system, in this order.
    AddTemplate(TemplateLayers),
    /// Keeps a zygote of the template running from now on.
    StartZygote {
        /// The template.
        template: String,
        /// The program.
        program: Program,
        /// The number of forks after which it is replaced.
        forks_max: u64,
        /// The age at which it is replaced.
        age_ms_max: u64,
    },
    /// Makes an enclosure. Descriptors: the mounts of the inputs. The reply comes with the
    /// directory that holds `workspace`, `home` and `tmp`, and with a file for each gauge.
    CreateEnclosure {
        /// The engine's number for it.
        enclosure: u64,
        /// Its template and limits.
        spec: EnclosureSpec,
        /// Read-only inputs.
        inputs: Vec<InputMount>,
        /// For tests: the step that fails.
        fail_at: u32,
    },
    /// Puts an interpreter into an enclosure. Descriptors: control, stdout, stderr, and the image if
    /// it becomes one.
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
    /// Starts a command in an enclosure. Descriptors: its report socket, then stdout, stderr and
    /// stdin as far as its streams are pipes. The process reports on that socket how the start
    /// went.
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
    /// Sends a signal to a command and to all processes of its process group.
    SignalCommand {
        /// The command.
        command: u64,
        /// The signal.
        signal: i32,
    },
    /// Changes what an enclosure gets of the processors. It is no error if it has ended.
    Share {
        /// The enclosure.
        enclosure: u64,
        /// Its weight and its limit.
        share: GroupShare,
    },
    /// Makes sockets in the network namespace of an enclosure. The first such request also makes
    /// every address of [`SYNTHETIC`] local there. The reply comes with the sockets.
    OpenSockets {
        /// The enclosure.
        enclosure: u64,
        /// At most [`SOCKETS_MAX`].
        sockets: Vec<ZoneSocket>,
        /// Further ranges whose addresses become local there: what the enclosure sends to one
        /// reaches a socket in its own namespace. At most [`PREFIXES_MAX`].
        prefixes: Vec<LocalPrefix>,
    },
    /// Kills all processes of an enclosure. The reply comes when the signals have been sent.
    Kill {
        /// The enclosure.
        enclosure: u64,
    },
    /// Ends an enclosure. The reply comes when nothing of it is left; its group may be kept, empty,
    /// for another one.
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

/// A step of a request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{step}: {message}")]
pub struct ZoneFailure {
    /// The step that failed, by a stable name.
    pub step: String,
    /// Why, as a sentence.
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

/// A message of the zone master.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ZoneMessage {
    Ready(ZoneFacts),
    Failed(ZoneFailure),
    Reply { number: u64, result: Result<ZoneReply, ZoneFailure> },
    Event(ZoneEvent),
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneReply {
    /// The request was carried out.
    Done,
    /// The enclosure is ready. Descriptors: its writable directory, and a file for each gauge.
    Enclosure {
        /// Its gauges.
        gauges: Vec<Gauge>,
        /// What they show of other sandboxes, to be subtracted.
        before: GroupUsage,
    },
    /// The interpreter or the command was forked.
    Entered,
    /// The sockets were made. Descriptors: the sockets, in the order of the request.
    Sockets,
}

/// A change that no request asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZoneEvent {
    /// An interpreter ended.
    KernelExited {
        /// The interpreter.
        kernel: u64,
        /// Its exit status or signal.
        exit: ProcessExit,
    },
    /// A command ended.
    CommandExited {
        /// The command.
        command: u64,
        /// Its exit status or signal.
        exit: ProcessExit,
        /// How many processes of the enclosure were killed for lack of memory since it started.
        oom_kills: u64,
    },
    /// An enclosure's init ended without a request to end it. Interpreters and commands that were
    /// killed along with it have no event of their own.
    EnclosureExited {
        /// The enclosure.
        enclosure: u64,
        /// What it had used by then.
        usage: GroupUsage,
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
        /// The end of its standard error.
        reason: String,
    },
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessExit {
    /// It exited with this status.
    Status(i32),
    /// This signal killed it.
    Signal(i32),
}

impl ProcessExit {
    /// Reads a wait status.
    pub(crate) fn from_wait(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Status(libc::WEXITSTATUS(status))
        }
    }
}

/// What a zone enforces for all its sandboxes.
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

/// The configuration of a zone, the first packet to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ZoneConfig {
    /// The name of the zone's groups.
    pub(crate) name: String,
    /// Where groups are made; empty for none.
    pub(crate) cgroups: Vec<CgroupParent>,
    /// The first of 65 536 host ids, or none to map only the caller's own.
    pub(crate) id_base: Option<u32>,
}

/// Returns the two ends of a socket that keeps packets apart.
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
            // CONNRESET: the other side closed its end without reading all that was sent to it. The
            // kernel reports that once, before it returns what the other side had sent; the next
            // call gets that.
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

/// Receives one packet into a buffer of its own length. For an init, which receives one or two
/// packets in its life: clearing a buffer of the maximum would touch more pages than all its other
/// work.
pub(crate) fn receive_one(socket: impl AsFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut nothing = [0_u8; 0];
    let length = loop {
        match rustix::net::recv(&socket, &mut nothing, RecvFlags::PEEK | RecvFlags::TRUNC) {
            // CONNRESET as in `receive`.
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
