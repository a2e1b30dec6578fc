//! The engine's end of a zone: starting it, exchanging messages with it, and removing what dead
//! zones have left behind.
//!
//! Tests: `tests/it/jail/entering.rs`, `tests/it/jail/leftovers.rs`.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use crate::cgroup::host::{self, CgroupParent};
use crate::protocol::{
    self, NumberedRequest, PACKET_BYTES_MAX, ZoneConfig, ZoneEvent, ZoneFacts, ZoneFailure,
    ZoneMessage, ZoneReply, ZoneRequest,
};
use crate::zone::layout::{self, Mounts, Programs};

/// How a zone is to be started.
#[derive(Clone, Debug)]
pub struct ZoneOptions {
    /// The program whose process becomes the zone, and its arguments.
    pub program: (PathBuf, Vec<String>),
    /// The directory of the lock files of running zones.
    pub run_directory: PathBuf,
    /// Which features of the host to use.
    pub use_of_host: UseOfHost,
}

/// Which features of the host to use, where it has them. Tests turn some off to check that the
/// containment report says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UseOfHost {
    /// Limit sandboxes by cgroups.
    pub cgroups: bool,
    /// Give each sandbox a host user id of its own.
    pub unique_ids: bool,
}

/// Why a zone could not be started or a message not be exchanged with it.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// The run directory or its locks cannot be used.
    #[error("cannot use the run directory {0}")]
    RunDirectory(PathBuf, #[source] io::Error),
    /// No range of host ids could be reserved. Without one the guests would run under the user id
    /// of this process.
    #[error("cannot reserve a range of host user ids in {ID_LOCKS}")]
    Ids(#[source] io::Error),
    /// The process could not be started.
    #[error("cannot start the zone process")]
    Spawn(#[source] io::Error),
    /// The zone could not set itself up.
    #[error("the zone could not be set up at step {}", .0.step)]
    Setup(#[source] ZoneFailure),
    /// The zone closed its socket.
    #[error("the zone process ended unexpectedly")]
    Gone,
    /// A request does not fit into one packet.
    #[error("the request is longer than {PACKET_BYTES_MAX} bytes")]
    TooLong,
    /// The socket failed.
    #[error("cannot exchange messages with the zone process")]
    Socket(#[source] io::Error),
}

/// A message of a zone.
#[derive(Debug)]
pub enum Incoming {
    /// The reply to a request, with its descriptors.
    Reply {
        /// The request's number.
        number: u64,
        /// The reply, or why the request failed.
        result: Result<ZoneReply, ZoneFailure>,
        /// The descriptors that came with it.
        fds: Vec<OwnedFd>,
    },
    /// An event that no request asked for.
    Event(ZoneEvent),
}

/// A running zone.
#[derive(Debug)]
pub struct Zone {
    socket: OwnedFd,
    process: Mutex<Child>,
    process_id: u32,
    facts: ZoneFacts,
    _slot: Slot,
    _ids: Option<IdRange>,
}

impl Zone {
    /// Removes what dead zones have left behind, then starts a zone and waits until it is ready.
    pub fn start(options: &ZoneOptions) -> Result<Self, ZoneError> {
        let in_directory = |error| ZoneError::RunDirectory(options.run_directory.clone(), error);
        let mut slot = Slot::take(&options.run_directory).map_err(in_directory)?;
        let ids = if options.use_of_host.unique_ids && is_privileged() {
            Some(IdRange::take().map_err(ZoneError::Ids)?)
        } else {
            None
        };
        let cgroups = if options.use_of_host.cgroups { host::survey().places } else { Vec::new() };
        slot.record(&cgroups).map_err(in_directory)?;
        match Self::spawn(options, &slot, &cgroups, ids.as_ref()) {
            Ok((socket, process, facts)) => Ok(Self::assemble(socket, process, facts, slot, ids)),
            // In some containers this process has the capabilities and the kernel still refuses to
            // map a range. The containment report then says that ids are not unique.
            Err(ZoneError::Setup(failure)) if ids.is_some() && failure.step == "zone-ids" => {
                drop(ids);
                let (socket, process, facts) = Self::spawn(options, &slot, &cgroups, None)?;
                Ok(Self::assemble(socket, process, facts, slot, None))
            }
            Err(error) => Err(error),
        }
    }

    fn assemble(
        socket: OwnedFd,
        process: Child,
        facts: ZoneFacts,
        slot: Slot,
        ids: Option<IdRange>,
    ) -> Self {
        let process_id = process.id();
        Self { socket, process: Mutex::new(process), process_id, facts, _slot: slot, _ids: ids }
    }

    fn spawn(
        options: &ZoneOptions,
        slot: &Slot,
        cgroups: &[CgroupParent],
        ids: Option<&IdRange>,
    ) -> Result<(OwnedFd, Child, ZoneFacts), ZoneError> {
        let (socket, theirs) = protocol::pair().map_err(ZoneError::Spawn)?;
        let (program, arguments) = &options.program;
        let process = Command::new(program)
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            // Ctrl-C in a terminal signals the whole process group; only the engine shall react to
            // it.
            .process_group(0)
            .spawn()
            .map_err(ZoneError::Spawn)?;
        let config = ZoneConfig {
            name: slot.name.clone(),
            cgroups: cgroups.to_vec(),
            id_base: ids.map(|ids| ids.base),
        };
        protocol::send(&socket, &config, &[]).map_err(ZoneError::Socket)?;
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let (length, _) = protocol::receive(&socket, &mut packet)
            .map_err(ZoneError::Socket)?
            .ok_or(ZoneError::Gone)?;
        match protocol::parse(&packet[..length]).map_err(ZoneError::Socket)? {
            ZoneMessage::Ready(facts) => Ok((socket, process, facts)),
            ZoneMessage::Failed(failure) => Err(ZoneError::Setup(failure)),
            ZoneMessage::Reply { .. } | ZoneMessage::Event(_) => Err(ZoneError::Gone),
        }
    }

    /// Returns what the zone enforces for all its sandboxes.
    pub fn facts(&self) -> &ZoneFacts {
        &self.facts
    }

    /// Returns the id of the launcher process, which waits for the zone master.
    pub fn process_id(&self) -> u32 {
        self.process_id
    }

    /// Sends a numbered request.
    pub fn request(
        &self,
        number: u64,
        request: ZoneRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ZoneError> {
        let sent = protocol::send(&self.socket, &NumberedRequest { number, request }, fds);
        sent.map_err(|error| match error.raw_os_error() {
            Some(libc::EMSGSIZE) => ZoneError::TooLong,
            Some(libc::EPIPE | libc::ECONNRESET) => ZoneError::Gone,
            _ => ZoneError::Socket(error),
        })
    }

    /// Waits for the next message, with a buffer from [`Zone::packet`].
    pub fn receive(&self, packet: &mut [u8]) -> Result<Incoming, ZoneError> {
        let (length, fds) = protocol::receive(&self.socket, packet)
            .map_err(ZoneError::Socket)?
            .ok_or(ZoneError::Gone)?;
        match protocol::parse(&packet[..length]).map_err(ZoneError::Socket)? {
            ZoneMessage::Reply { number, result } => Ok(Incoming::Reply { number, result, fds }),
            ZoneMessage::Event(event) => Ok(Incoming::Event(event)),
            ZoneMessage::Failed(failure) => Err(ZoneError::Setup(failure)),
            ZoneMessage::Ready(_) => Err(ZoneError::Gone),
        }
    }

    /// Returns a buffer long enough for any message.
    pub fn packet() -> Vec<u8> {
        vec![0; PACKET_BYTES_MAX]
    }

    /// Closes the socket, upon which the zone ends: its processes die and its groups are removed.
    pub fn hang_up(&self) {
        // It fails if the zone has ended already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

/// How long `Zone::wait` waits for the zone to end before it kills it.
const END_PATIENCE: Duration = Duration::from_secs(10);

impl Zone {
    /// Waits until the zone has ended after [`Zone::hang_up`], and kills it if it takes too long.
    pub fn wait(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let process = self.process.lock();
        let mut process = process.unwrap_or_else(std::sync::PoisonError::into_inner);
        let pidfd = rustix::process::Pid::from_raw(process.id() as i32).and_then(|pid| {
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
        });
        if let (Some(pidfd), Ok(patience)) = (pidfd, Timespec::try_from(END_PATIENCE)) {
            let mut watched = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
            // On a failure the zone is killed below.
            let _ = poll(&mut watched, Some(&patience));
        }
        if !matches!(process.try_wait(), Ok(Some(_))) {
            // The kernel then kills the master, by its parent death signal, and all of the zone.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        self.hang_up();
        self.wait();
    }
}

/// Whether this process has the capabilities to map a range of ids, to give cgroups to another user
/// and to make detached mounts.
pub fn is_privileged() -> bool {
    use rustix::thread::CapabilitySet;
    let needed = CapabilitySet::SYS_ADMIN
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::CHOWN;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Makes a detached, read-only mount of a host file or directory, to be sent to a zone. Returns
/// `None` if this process may not; the zone then finds the file by its path.
pub fn detach(path: &Path, executable: bool) -> io::Result<Option<OwnedFd>> {
    if !is_privileged() {
        return Ok(None);
    }
    let programs = if executable { Programs::Executable } else { Programs::NotExecutable };
    let tree = layout::clone_tree(path, Mounts::One)?;
    layout::freeze(&tree, programs)?;
    Ok(Some(tree))
}

/// The number of a zone among those of one run directory, reserved by a file lock until this is
/// dropped.
#[derive(Debug)]
struct Slot {
    file: File,
    name: String,
}

/// The most zones at once over one run directory.
const SLOTS_MAX: u32 = 256;

/// More than any record of a zone's groups holds.
const RECORD_BYTES_MAX: u64 = 64 * 1024;

impl Slot {
    /// Reserves the first free slot, and removes the groups that the zones of free slots left
    /// behind.
    fn take(directory: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let mut taken = None;
        for number in 0..SLOTS_MAX {
            // Slots are taken from the lowest, so beyond the first unused one there is no record.
            let path = directory.join(format!("zone-{number}.lock"));
            let fresh = !path.exists();
            if fresh && taken.is_some() {
                break;
            }
            let mut file =
                File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => return Err(error),
            }
            clear_recorded(&mut file)?;
            if taken.is_none() {
                let name = format!("silica-{:08x}-{number}", fingerprint(directory));
                taken = Some(Self { file, name });
            }
        }
        taken.ok_or_else(|| {
            io::Error::other(format!(
                "{SLOTS_MAX} zones use this directory already; stop one first"
            ))
        })
    }

    /// Records where this zone makes its groups, so that a later zone can remove them if this one
    /// dies.
    fn record(&mut self, places: &[CgroupParent]) -> io::Result<()> {
        let paths: Vec<PathBuf> =
            places.iter().map(|place| place.parent.join(&self.name)).collect();
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&serde_json::to_vec(&paths).map_err(io::Error::other)?)
    }
}

/// Removes the groups a dead zone left behind.
fn clear_recorded(file: &mut File) -> io::Result<()> {
    let mut record = String::new();
    file.take(RECORD_BYTES_MAX).read_to_string(&mut record)?;
    for path in serde_json::from_str::<Vec<PathBuf>>(&record).unwrap_or_default() {
        // Whatever the file says, nothing but a group of Silica's is removed.
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("silica-")) {
            host::clear(&path)?;
        }
    }
    Ok(())
}

/// Returns a short stable hash of a path (FNV-1a), which keeps the group names of different run
/// directories apart.
fn fingerprint(path: &Path) -> u32 {
    use std::os::unix::ffi::OsStrExt;
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    path.as_os_str()
        .as_bytes()
        .iter()
        .fold(0x811c_9dc5, |hash: u32, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A range of host ids that no other zone on this machine uses, held by a file lock.
#[derive(Debug)]
struct IdRange {
    base: u32,
    _file: File,
}

/// Above what distributions, `/etc/subuid` and systemd hand out, below the sign bit.
const ID_RANGES_FIRST: u32 = 0x7000_0000;
const ID_RANGES: u32 = 2048;

/// The directory of the locks: one for the whole machine, open to root alone.
const ID_LOCKS: &str = "/run/silica";

impl IdRange {
    fn take() -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(ID_LOCKS)?;
        for number in 0..ID_RANGES {
            let path = Path::new(ID_LOCKS).join(format!("ids-{number}.lock"));
            let file = File::options().write(true).create(true).truncate(false).open(path)?;
            match file.try_lock() {
                Ok(()) => {
                    return Ok(Self { base: ID_RANGES_FIRST + number * 0x1_0000, _file: file });
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::other(format!("all {ID_RANGES} ranges are in use by other zones")))
    }
}
