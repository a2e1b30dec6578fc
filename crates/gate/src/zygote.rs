//! The zygote's part of the gate: the messages between it and the zone master, and the C interface
//! that its Python code calls.

use core::sync::atomic::{AtomicI32, Ordering};

use crate::enter::{self, FinalFilter};
use crate::image::{self, Carrier};
use crate::sys::{self, EAGAIN, EINTR, EINVAL, Errno, Instruction};
use crate::verify;

/// The most resource limits an entry carries.
pub const RLIMITS_MAX: usize = 12;

/// The namespaces a process joins by itself, in the order of their descriptors: the network
/// namespace first, because it belongs to the zone's user namespace; then the user namespace,
/// because joining it gives the capabilities over the others. The pid namespace is not among them:
/// `setns` into one only holds for children, so it is joined by the fork; setns(2).
pub const NAMESPACES: [(&str, u32); 6] = [
    ("net", 0x4000_0000),
    ("user", 0x1000_0000),
    ("mnt", 0x0002_0000),
    ("ipc", 0x0800_0000),
    ("uts", 0x0400_0000),
    ("cgroup", 0x0200_0000),
];

/// How many descriptors every entry has: pid namespace, namespace socket, control, stdout, stderr.
const FIXED_FDS: usize = 5;

/// The most descriptors that come with an entry: the fixed ones, standard input, an image, and one
/// `cgroup.procs` for each of up to eight hierarchies.
pub const ENTRY_FDS_MAX: usize = FIXED_FDS + 2 + 8;

/// The kind of a notice that a child was forked into its enclosure; `status` is 0 or an error
/// number.
pub const NOTICE_FORKED: u32 = 1;

/// The kind of a notice that a child ended; `status` is its wait status.
pub const NOTICE_EXITED: u32 = 2;

/// One resource limit, soft and hard alike.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Rlimit {
    /// `RLIMIT_*`.
    pub resource: u32,
    /// Keeps the layout free of padding.
    pub reserved: u32,
    /// The limit.
    pub value: u64,
}

/// The zone master's request to a zygote to fork one child into an enclosure.
///
/// Both ends are built from this file, so the bytes of the structure are the message. Descriptors
/// come with it: the pid namespace, the namespace socket, control, stdout, stderr, standard input
/// and an image if there is one, then one `cgroup.procs` per hierarchy.
///
/// The other namespaces arrive on the namespace socket once the enclosure is ready. So a child can
/// be forked while its enclosure is still being built.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct EntryRequest {
    /// The number of the interpreter or command, repeated in notices.
    pub id: u64,
    /// Inode numbers of the zone's namespaces: user, mnt, net, ipc, uts, pid, cgroup.
    pub zone_namespaces: [u64; 7],
    /// Resource limits; the first `rlimit_count` count.
    pub rlimits: [Rlimit; RLIMITS_MAX],
    /// How many of `rlimits` are set.
    pub rlimit_count: u32,
    /// The user id to take, as seen inside.
    pub uid: u32,
    /// The group id to take, as seen inside.
    pub gid: u32,
    /// The kernel's Landlock version, 0 for none.
    pub landlock: u32,
    /// Not 0 if a descriptor for standard input comes with the request; else /dev/null is opened.
    pub has_stdin: u32,
    /// For tests: the number of the step that fails on purpose; 0 for none.
    pub fail_at: u32,
    /// Not 0 if the descriptor of an image comes with the request: the child becomes it.
    pub has_image: u32,
    /// Keeps the layout free of padding.
    pub reserved: u32,
}

/// An entry request with its descriptors.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The message, without its descriptors.
    pub request: EntryRequest,
    fds: [i32; ENTRY_FDS_MAX],
    fd_count: usize,
}

impl Entry {
    /// Fails if there are too few or too many descriptors for the request.
    pub fn new(request: EntryRequest, fds: &[i32]) -> Result<Self, Errno> {
        if fds.len() < request.fixed_fds() || fds.len() > ENTRY_FDS_MAX {
            return Err(EINVAL);
        }
        let mut entry = Self { request, fds: [-1; ENTRY_FDS_MAX], fd_count: fds.len() };
        entry.fds[..fds.len()].copy_from_slice(fds);
        Ok(entry)
    }

    fn pid_namespace(&self) -> i32 {
        self.fds[0]
    }

    pub(crate) fn namespace_socket(&self) -> i32 {
        self.fds[1]
    }

    pub(crate) fn streams(&self) -> [i32; 3] {
        [self.fds[2], self.fds[3], self.fds[4]]
    }

    pub(crate) fn stdin(&self) -> Option<i32> {
        (self.request.has_stdin != 0).then_some(self.fds[FIXED_FDS])
    }

    pub(crate) fn image(&self) -> Option<i32> {
        let last = self.request.fixed_fds() - 1;
        (self.request.has_image != 0).then_some(self.fds[last])
    }

    pub(crate) fn cgroups(&self) -> &[i32] {
        let first = self.request.fixed_fds();
        &self.fds[first..self.fd_count.clamp(first, ENTRY_FDS_MAX)]
    }

    pub(crate) fn rlimits(&self) -> &[Rlimit] {
        &self.request.rlimits[..(self.request.rlimit_count as usize).min(RLIMITS_MAX)]
    }

    fn close(&self) {
        for &fd in &self.fds[..self.fd_count.min(ENTRY_FDS_MAX)] {
            sys::close(fd);
        }
    }
}

/// A zygote's message to the zone master about one of its children.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct ChildNotice {
    /// `NOTICE_FORKED` or `NOTICE_EXITED`.
    pub kind: u32,
    /// The child, in the zone's pid namespace.
    pub pid: i32,
    /// The request's number for a fork; 0 for an exit.
    pub id: u64,
    /// An error number or a wait status, by the kind.
    pub status: i32,
    /// Keeps the layout free of padding.
    pub reserved: u32,
}

const SIGCHLD_MASK: u64 = 1 << (17 - 1);
const CLONE_NEWPID: u32 = 0x2000_0000;
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// The zygote's own pid namespace, into which `setns` points children again after each fork.
static OWN_PID_NAMESPACE: AtomicI32 = AtomicI32::new(-1);
/// The descriptor that reports SIGCHLD.
static CHILD_SIGNALS: AtomicI32 = AtomicI32::new(-1);

/// A message whose bytes are sent as they are.
///
/// # Safety
/// The type must be `repr(C)`, have no padding and consist of integers only.
unsafe trait Message: Copy {}

// SAFETY: `repr(C)`, integers only: 8 + 7 * 8 + 12 * 16 + 8 * 4 bytes, a multiple of 8, without
// gaps.
unsafe impl Message for EntryRequest {}

// SAFETY: `repr(C)`, integers only: 4 + 4 + 8 + 4 + 4 bytes, a multiple of 8, without gaps.
unsafe impl Message for ChildNotice {}

const _: () = assert!(size_of::<EntryRequest>() == 8 + 7 * 8 + RLIMITS_MAX * 16 + 8 * 4);
const _: () = assert!(size_of::<ChildNotice>() == 24);

fn bytes_of<T: Message>(value: &T) -> &[u8] {
    // SAFETY: without padding every byte is initialised; the slice covers exactly the borrowed
    // value.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast(), size_of::<T>()) }
}

fn bytes_of_mut<T: Message>(value: &mut T) -> &mut [u8] {
    // SAFETY: without padding every byte is initialised; the slice covers exactly the value that is
    // borrowed exclusively; any bytes are a value of the type, since it consists of integers only.
    unsafe { core::slice::from_raw_parts_mut(core::ptr::from_mut(value).cast(), size_of::<T>()) }
}

impl EntryRequest {
    /// How many descriptors come before those of the cgroups.
    fn fixed_fds(&self) -> usize {
        FIXED_FDS + usize::from(self.has_stdin != 0) + usize::from(self.has_image != 0)
    }

    /// The message's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        bytes_of(self)
    }
}

impl ChildNotice {
    /// Reads a notice from a packet of exactly its size.
    pub fn from_bytes(packet: &[u8]) -> Option<Self> {
        let mut notice = Self::default();
        let bytes = bytes_of_mut(&mut notice);
        if packet.len() != bytes.len() {
            return None;
        }
        bytes.copy_from_slice(packet);
        Some(notice)
    }
}

fn code(result: Result<i32, Errno>) -> i32 {
    result.unwrap_or_else(|errno| -errno.0)
}

/// Prepares the zygote, which `confine_zygote` restricted before its program started: checks that,
/// opens its own pid namespace and a descriptor for SIGCHLD, and hides its memory.
#[unsafe(no_mangle)]
pub extern "C" fn silica_zygote_lock(_socket: i32) -> i32 {
    code(lock())
}

fn lock() -> Result<i32, Errno> {
    verify::zygote_confined()?;
    OWN_PID_NAMESPACE.store(sys::open(c"/proc/self/ns/pid", sys::O_RDONLY)?, Ordering::Relaxed);
    sys::set_signal_mask(SIGCHLD_MASK)?;
    CHILD_SIGNALS.store(sys::signalfd(SIGCHLD_MASK)?, Ordering::Relaxed);
    sys::set_dumpable(false)?;
    Ok(0)
}

/// Restricts a process that is about to become a zygote. Of all capabilities it keeps
/// `CAP_SYS_ADMIN` over its own user namespace, because `setns` into a pid namespace needs it. The
/// allow-list is loaded here, before any module of the template is imported.
///
/// No Landlock domain is made here: its rules would name the zygote's root, not those of its
/// children, and keep the children from moving files from one directory to another.
pub fn confine_zygote(filter: &[Instruction]) -> Result<(), Errno> {
    enter::keep_capabilities(CAP_SYS_ADMIN)?;
    sys::set_no_new_privileges()?;
    sys::load_filter(filter)
}

/// The C library's `_Fork`, or its `fork`.
pub type Fork = unsafe extern "C" fn() -> i32;

/// A range of memory that must differ between children, such as the state of a random number
/// generator.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The address of its first byte.
    pub address: usize,
    /// Its length in bytes.
    pub size: usize,
}

/// The exit status of a child that could not enter its enclosure.
const EXIT_NOT_ENTERED: i32 = 121;

/// The exit status of a child whose random state could not be made its own.
const EXIT_NOT_RESEEDED: i32 = 123;

/// Forks a child for each entry request. Returns 1 in every child, which is locked in by then and
/// has random bytes of its own in each of `spans`. A child whose request brings an image becomes
/// that instead. Returns in the zygote 0 when the zone master has closed its end for writing, or a
/// negative error number.
///
/// The zygote stays in this loop of native code, so it writes to almost none of the pages that it
/// shares with its children; a page that either side writes to is copied.
///
/// # Safety
/// `fork` must fork this process, which must have one thread. There must be `span_count` spans at
/// `spans`. Nothing may hold a reference to the bytes of a span, and any bytes must be valid there.
/// `carrier` must describe the C library of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_zygote_serve(
    socket: i32,
    fork: Fork,
    spans: *const Span,
    span_count: usize,
    carrier: *const Carrier,
) -> i32 {
    loop {
        let entry = match wait(socket) {
            Ok(Some(entry)) => entry,
            Ok(None) => return 0,
            Err(errno) => return -errno.0,
        };
        // SAFETY: the caller vouches that it forks this process, and that there is one thread.
        let pid = unsafe { fork() };
        if pid == 0 {
            enter_or_exit(&entry);
            if entry.image().is_some() {
                // SAFETY: the caller vouches that it points to a carrier.
                image::become_image(unsafe { &*carrier });
            }
            if span_count > 0 {
                // SAFETY: the caller vouches that there are `span_count` of them, and does not
                // change them.
                let spans = unsafe { core::slice::from_raw_parts(spans, span_count) };
                // SAFETY: the caller vouches that any bytes are valid in each span.
                unsafe { reseed_or_exit(spans) };
            }
            return 1;
        }
        if let Err(errno) = report_child(socket, &entry, pid) {
            return -errno.0;
        }
    }
}

/// In the child: enters the enclosure and locks in.
fn enter_or_exit(entry: &Entry) {
    if let Err(failure) = enter::enter(entry, FinalFilter::Inherited) {
        enter::report_failure(entry, failure);
        sys::exit_group(EXIT_NOT_ENTERED)
    }
}

/// In the child: fills the spans with random bytes. A child that would draw the same random numbers
/// as its siblings exits instead.
///
/// # Safety
/// Nothing may hold a reference to the bytes of a span, and any bytes must be valid there.
unsafe fn reseed_or_exit(spans: &[Span]) {
    for span in spans {
        let mut filled = 0;
        while filled < span.size {
            // SAFETY: the caller vouches for the span, of which these bytes are the rest.
            match unsafe { sys::random(span.address + filled, span.size - filled) } {
                Ok(count) => filled += count,
                Err(EINTR) => {}
                Err(_) => sys::exit_group(EXIT_NOT_RESEEDED),
            }
        }
    }
}

/// In the zygote, after a fork: points the next fork back at its own pid namespace and reports the
/// child to the zone master. A negative `pid` is a fork that failed.
fn report_child(socket: i32, entry: &Entry, pid: i32) -> Result<(), Errno> {
    entry.close();
    let status = if pid < 0 { EAGAIN.0 } else { 0 };
    let notice =
        ChildNotice { kind: NOTICE_FORKED, pid, id: entry.request.id, status, reserved: 0 };
    sys::setns(OWN_PID_NAMESPACE.load(Ordering::Relaxed), CLONE_NEWPID)?;
    sys::send(socket, bytes_of(&notice)).map(drop)
}

/// Waits for an entry request and points the next fork at its pid namespace; reaps children
/// meanwhile. Returns `None` when the zone master has closed its end.
fn wait(socket: i32) -> Result<Option<Entry>, Errno> {
    loop {
        let signals = CHILD_SIGNALS.load(Ordering::Relaxed);
        let (request_waits, child_ended) = match sys::wait_readable(socket, signals) {
            Err(EINTR) => continue,
            other => other?,
        };
        if child_ended {
            report_exits(socket, signals);
        }
        if request_waits {
            return take_request(socket);
        }
    }
}

fn report_exits(socket: i32, signals: i32) {
    let mut drained = [0; 128];
    while sys::read(signals, &mut drained).is_ok() {}
    while let Some((pid, status)) = sys::reap() {
        let notice = ChildNotice { kind: NOTICE_EXITED, pid, status, ..ChildNotice::default() };
        // If the zone master has gone, the kernel ends this process too.
        let _ = sys::send(socket, bytes_of(&notice));
    }
}

fn take_request(socket: i32) -> Result<Option<Entry>, Errno> {
    let mut request = EntryRequest::default();
    let mut fds = [-1; ENTRY_FDS_MAX];
    let (length, count) = sys::receive(socket, bytes_of_mut(&mut request), &mut fds)?;
    if length == 0 {
        return Ok(None);
    }
    let aimed = Entry::new(request, &fds[..count])
        .and_then(|entry| sys::setns(entry.pid_namespace(), CLONE_NEWPID).map(|()| entry));
    match aimed {
        Ok(entry) if length == size_of::<EntryRequest>() => Ok(Some(entry)),
        // The enclosure has died meanwhile, or the request is malformed: only this request fails.
        other => {
            for &fd in &fds[..count] {
                sys::close(fd);
            }
            let status = other.err().unwrap_or(EINVAL).0;
            let notice =
                ChildNotice { kind: NOTICE_FORKED, pid: -1, id: request.id, status, reserved: 0 };
            sys::send(socket, bytes_of(&notice))?;
            wait(socket)
        }
    }
}
