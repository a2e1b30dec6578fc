//! Entering an enclosure: the one primitive behind kernels and commands.
//!
//! The order matters. The cgroups come first, while their descriptors are open and before the
//! process allocates anything for the guest that would be charged to another group. Then come the
//! namespaces, the ids, the descriptors and the limits. Capabilities are dropped after the steps
//! that need them. Seccomp comes after every call that the last filter denies, and the check comes
//! last.

use crate::sys::{self, EIO, EPIPE, Errno, Instruction};
use crate::verify;
use crate::zygote::{Entry, NAMESPACES};

/// The steps of entering, in order; a failure names the one that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Hiding from the processes in the enclosure, and moving into the sandbox's cgroups.
    Cgroup = 1,
    /// Joining the enclosure's namespaces.
    Namespaces = 2,
    /// Taking the sandbox's user and group id.
    Ids = 3,
    /// Putting descriptors 0 to 3 in place, and an image at 4, and closing all others.
    Descriptors = 4,
    /// Setting resource limits.
    Rlimits = 5,
    /// Leaving the old session, mask and directory.
    Surroundings = 6,
    /// Dropping every capability, for good.
    Capabilities = 7,
    /// `no_new_privs` and Landlock.
    Landlock = 8,
    /// The seccomp filters.
    Seccomp = 9,
    /// Reading back what is in force.
    Verify = 10,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 10] = [
        Self::Cgroup,
        Self::Namespaces,
        Self::Ids,
        Self::Descriptors,
        Self::Rlimits,
        Self::Surroundings,
        Self::Capabilities,
        Self::Landlock,
        Self::Seccomp,
        Self::Verify,
    ];

    /// The name used in errors and in the frame `refused`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "enter-cgroup",
            Self::Namespaces => "enter-namespaces",
            Self::Ids => "enter-ids",
            Self::Descriptors => "enter-descriptors",
            Self::Rlimits => "enter-rlimits",
            Self::Surroundings => "enter-surroundings",
            Self::Capabilities => "enter-capabilities",
            Self::Landlock => "enter-landlock",
            Self::Seccomp => "enter-seccomp",
            Self::Verify => "enter-verify",
        }
    }
}

/// The step that failed, and the kernel's error.
pub(crate) type EntryFailure = (Step, Errno);

/// Which filters `enter` still has to load.
#[derive(Clone, Copy)]
pub enum FinalFilter<'a> {
    /// The allow-list is inherited from the zygote: only the filter against entering is loaded.
    Inherited,
    /// No filter is loaded yet: this allow-list is, and then the filter against entering.
    Load(&'a [Instruction]),
}

/// Takes the calling process into the enclosure and locks it in.
///
/// The caller must already run in the enclosure's pid namespace. On an error the process is partly
/// moved and partly restricted, and must end at once.
pub fn enter(entry: &Entry, filter: FinalFilter<'_>) -> Result<(), EntryFailure> {
    step(entry, Step::Cgroup, || hide().and_then(|()| join_cgroups(entry)))?;
    step(entry, Step::Namespaces, || join_namespaces(entry))?;
    step(entry, Step::Ids, || sys::set_ids(entry.request.uid, entry.request.gid))?;
    step(entry, Step::Descriptors, || place_descriptors(entry))?;
    step(entry, Step::Rlimits, || set_rlimits(entry))?;
    step(entry, Step::Surroundings, leave_surroundings)?;
    step(entry, Step::Capabilities, drop_capabilities)?;
    step(entry, Step::Landlock, || {
        sys::set_no_new_privileges().and_then(|()| match entry.request.landlock {
            0 => Ok(()),
            version => sys::landlock(version),
        })
    })?;
    step(entry, Step::Seccomp, || load_filters(filter))?;
    step(entry, Step::Verify, || verify::locked_in(entry).and_then(|()| show_again(filter)))
}

/// Closes this process to the guests that may run in the enclosure already. While it enters it has
/// their user id and memory that is not theirs; a guest that could write to that memory would run
/// code that no filter restricts. No unprivileged process may trace one that is not dumpable;
/// ptrace(2).
fn hide() -> Result<(), Errno> {
    // First, because this file belongs to root once the process is not dumpable. With a score the
    // guest's processes are killed before the enclosure's init when memory runs out.
    let score = sys::open(c"/proc/self/oom_score_adj", sys::O_WRONLY)?;
    let written = sys::write(score, b"500");
    sys::close(score);
    written?;
    sys::set_dumpable(false)
}

/// Makes /proc/self belong to the process again. A process that is about to execute a program stays
/// hidden until then, since its memory is a copy of the zone master's; `execve` makes it dumpable.
fn show_again(filter: FinalFilter<'_>) -> Result<(), Errno> {
    match filter {
        FinalFilter::Inherited => sys::set_dumpable(true),
        FinalFilter::Load(_) => Ok(()),
    }
}

/// Runs one step, or fails it on purpose when a test asked for that.
fn step(
    entry: &Entry,
    step: Step,
    action: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), EntryFailure> {
    if entry.request.fail_at == step as u32 {
        return Err((step, EIO));
    }
    action().map_err(|errno| (step, errno))
}

fn join_cgroups(entry: &Entry) -> Result<(), Errno> {
    for &procs in entry.cgroups() {
        sys::write(procs, b"0")?;
    }
    Ok(())
}

/// Waits until the namespaces of the enclosure arrive on the namespace socket, then joins them.
fn join_namespaces(entry: &Entry) -> Result<(), Errno> {
    let mut fds = [-1; NAMESPACES.len()];
    let (length, count) = sys::receive(entry.namespace_socket(), &mut [0], &mut fds)?;
    if length != 1 || count != fds.len() {
        // Making the enclosure failed, and the zone master has closed its end.
        return Err(EPIPE);
    }
    for (namespace, (_, kind)) in fds.into_iter().zip(NAMESPACES) {
        sys::setns(namespace, kind)?;
    }
    Ok(())
}

fn place_descriptors(entry: &Entry) -> Result<(), Errno> {
    let [control, stdout, stderr] = entry.streams();
    let stdin = match entry.stdin() {
        Some(stdin) => stdin,
        // Opened after joining the mount namespace: the enclosure's own device, not the zone's.
        None => sys::open(c"/dev/null", sys::O_RDONLY)?,
    };
    sys::dup3(stdin, 0)?;
    sys::dup3(stdout, 1)?;
    sys::dup3(stderr, 2)?;
    sys::dup3(control, 3)?;
    match entry.image() {
        None => sys::close_from(4),
        Some(image) => {
            // Not through a number that another descriptor has: each of these came by a message,
            // so all numbers are above 4 or are not needed any more.
            sys::dup3(image, 4)?;
            sys::close_from(5)
        }
    }
}

const RLIMIT_CPU: u32 = 0;

fn set_rlimits(entry: &Entry) -> Result<(), Errno> {
    for limit in entry.rlimits() {
        // A hard limit can only be lowered, so a tighter one of the host stays.
        let (_, hard) = sys::rlimit(limit.resource)?;
        let soft = limit.value.min(hard);
        // SIGXCPU comes at the soft limit and says what happened; SIGKILL at the hard one does not.
        let grace = u64::from(limit.resource == RLIMIT_CPU);
        sys::set_rlimit(limit.resource, soft, soft.saturating_add(grace).min(hard))?;
    }
    Ok(())
}

/// Leaves the session, the file mode mask, the signal mask and the directory of the zone.
fn leave_surroundings() -> Result<(), Errno> {
    sys::setsid()?;
    sys::umask(0o022);
    sys::set_signal_mask(0)?;
    sys::chdir(c"/workspace")
}

/// The width of a set of capabilities. The kernel knows fewer and answers EINVAL beyond its last
/// one.
const CAPABILITIES_MAX: u32 = 64;

/// Drops every capability from all five sets, and the ways to get one back.
pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    sys::lock_securebits()?;
    keep_capabilities(0)
}

/// Drops every capability outside `kept` from all five sets.
pub(crate) fn keep_capabilities(kept: u64) -> Result<(), Errno> {
    bound_capabilities(kept)?;
    sys::set_capabilities(kept)
}

/// Drops every capability outside `kept` from the ambient and the bounding set, so that no `exec`
/// can give it back.
fn bound_capabilities(kept: u64) -> Result<(), Errno> {
    sys::clear_ambient_capabilities()?;
    for capability in 0..CAPABILITIES_MAX {
        if kept >> capability & 1 == 1 {
            continue;
        }
        match sys::drop_bounding_capability(capability) {
            Ok(()) => {}
            Err(sys::EINVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Empties the ambient and the bounding set of capabilities; for an enclosure's init. That takes
/// one call per capability, so an init does it ahead of time, while it waits in the pool.
pub fn empty_bounding_set() -> Result<(), Errno> {
    bound_capabilities(0)
}

/// Drops every capability and sets `no_new_privs`; for an enclosure's init, after
/// [`empty_bounding_set`].
pub fn drop_privileges() -> Result<(), Errno> {
    sys::lock_securebits()?;
    sys::set_capabilities(0)?;
    sys::set_no_new_privileges()
}

/// Loads a filter of system calls; for an enclosure's init, which enters no other enclosure.
pub fn load_init_filter(filter: &[Instruction]) -> Result<(), Errno> {
    sys::load_filter(filter)
}

/// Loads the filters that are missing; from here on the process can enter no other enclosure.
fn load_filters(filter: FinalFilter<'_>) -> Result<(), Errno> {
    if let FinalFilter::Load(program) = filter {
        sys::load_filter(program)?;
    }
    sys::load_filter(&NO_MORE_ENTERING)
}

const fn op(code: u16, operand: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code, jump_true, jump_false, operand }
}

/// Denies, with EPERM, the calls that the allow-list leaves open for entering: `setresuid` 117,
/// `setresgid` 119, `capset` 126, `setns` 308, `seccomp` 317, and those of Landlock, 444 to 446. It
/// does not check the architecture, because the allow-list does. It is short, because the kernel
/// runs a filter once for every system call number when it is loaded.
const NO_MORE_ENTERING: [Instruction; 10] = [
    op(0x20, 0, 0, 0),
    op(0x15, 117, 7, 0),
    op(0x15, 119, 6, 0),
    op(0x15, 126, 5, 0),
    op(0x15, 308, 4, 0),
    op(0x15, 317, 3, 0),
    op(0x35, 444, 0, 1),
    op(0x25, 446, 0, 1),
    op(0x06, 0x7fff_0000, 0, 0),
    op(0x06, 0x0005_0001, 0, 0),
];

/// Reports the failed step to the host over the control socket, as a frame of the guest protocol.
pub fn report_failure(entry: &Entry, (step, errno): EntryFailure) {
    let mut frame = [0_u8; 128];
    let frame = refused_frame(&mut frame, step.name(), errno);
    // After the descriptors were placed, the control socket is descriptor 3.
    let placed = step as u32 > Step::Descriptors as u32;
    let control = if placed { 3 } else { entry.streams()[0] };
    // The host sees the end of the process if this cannot be sent.
    let _ = sys::send(control, frame);
}

/// Writes the frame `refused` of the guest protocol.
pub(crate) fn refused_frame<'a>(frame: &'a mut [u8; 128], step: &str, errno: Errno) -> &'a [u8] {
    // A frame begins with two lengths, of its head and of a body; there is no body.
    let mut length = 8;
    let mut push = |bytes: &[u8]| {
        frame[length..length + bytes.len()].copy_from_slice(bytes);
        length += bytes.len();
    };
    push(b"{\"type\":\"refused\",\"step\":\"");
    push(step.as_bytes());
    push(b"\",\"errno\":");
    let mut digits = [0_u8; 10];
    let mut at = digits.len();
    let mut rest = errno.0;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 || at == 0 {
            break;
        }
    }
    push(&digits[at..]);
    push(b"}");
    let head_length = (length - 8) as u32;
    frame[..4].copy_from_slice(&head_length.to_le_bytes());
    &frame[..length]
}
