//! Entering an enclosure: the one primitive behind kernels and commands.
//!
//! The order matters. Cgroups first, while the descriptors still work and before anything of the
//! guest's can be charged elsewhere; then the namespaces, the ids, the descriptors, the limits; then
//! the capabilities, because the steps before need them; seccomp and the check last.

use crate::sys::{self, EIO, EPIPE, Errno, Instruction};
use crate::verify;
use crate::zygote::{Entry, NAMESPACES};

/// The steps of entering, in order; a refusal names the one that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Hiding from whoever is in the enclosure already, and moving into the sandbox's cgroups.
    Cgroup = 1,
    /// Joining the enclosure's namespaces.
    Namespaces = 2,
    /// Taking the sandbox's user and group id.
    Ids = 3,
    /// Putting descriptors 0 to 3 in place and closing all others.
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

    /// The name used in errors and in the refusal frame.
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

/// A failed step and the kernel's reason.
pub(crate) type Refusal = (Step, Errno);

/// What the last filter has to do, which depends on what was loaded before.
#[derive(Clone, Copy)]
pub enum FinalFilter<'a> {
    /// The allow-list is inherited from the zygote: only take the calls of entering away.
    Inherited,
    /// Nothing is loaded yet: load the allow-list, then take the calls of entering away.
    Load(&'a [Instruction]),
}

/// Takes the calling process into the enclosure and locks it in.
///
/// The caller must already run in the enclosure's pid namespace. On an error the process is in an
/// undefined place between host and guest and must end at once.
pub fn enter(entry: &Entry, filter: FinalFilter<'_>) -> Result<(), Refusal> {
    step(entry, Step::Cgroup, || hide().and_then(|()| join_cgroups(entry)))?;
    step(entry, Step::Namespaces, || join_namespaces(entry))?;
    step(entry, Step::Ids, || sys::set_ids(entry.request.uid, entry.request.gid))?;
    step(entry, Step::Descriptors, || place_descriptors(entry))?;
    step(entry, Step::Rlimits, || set_rlimits(entry))?;
    step(entry, Step::Surroundings, settle)?;
    step(entry, Step::Capabilities, drop_capabilities)?;
    step(entry, Step::Landlock, || {
        no_new_privileges().and_then(|()| match entry.request.landlock {
            0 => Ok(()),
            version => sys::landlock(version),
        })
    })?;
    step(entry, Step::Seccomp, || lock_in(filter))?;
    step(entry, Step::Verify, || verify::locked_in(entry).and_then(|()| show_again(filter)))
}

const PR_SET_DUMPABLE: usize = 4;

/// Closes this process to the guests that may run in the enclosure already: while it is on its way in it
/// has their user id and a memory that is not theirs, and what they could write there would run
/// before the filter. The kernel lets nobody look into a process that must not be dumped.
fn hide() -> Result<(), Errno> {
    // First, because the file of a hidden process belongs to root. Set at all, so that the guest's
    // processes die before the enclosure's init when memory runs out.
    let score = sys::open(c"/proc/self/oom_score_adj", sys::O_WRONLY)?;
    let written = sys::write(score, b"500");
    sys::close(score);
    written?;
    sys::prctl(PR_SET_DUMPABLE, 0).map(drop)
}

/// Makes /proc/self belong to the process again. One that is about to execute stays hidden: the
/// kernel does the same for its new memory, and the old one is the zone master's.
fn show_again(filter: FinalFilter<'_>) -> Result<(), Errno> {
    match filter {
        FinalFilter::Inherited => sys::prctl(PR_SET_DUMPABLE, 1).map(drop),
        FinalFilter::Load(_) => Ok(()),
    }
}

/// Runs one step, or fails it on purpose when a test asked for that.
fn step(
    entry: &Entry,
    step: Step,
    action: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Refusal> {
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

/// Waits at the threshold until the enclosure stands, then joins its namespaces.
fn join_namespaces(entry: &Entry) -> Result<(), Errno> {
    let mut fds = [-1; NAMESPACES.len()];
    let (length, count) = sys::receive(entry.threshold(), &mut [0], &mut fds)?;
    if length != 1 || count != fds.len() {
        // The enclosure came to nothing, and the other side has hung up.
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
        // The enclosure's own, so that nothing of the zone is open on standard input.
        None => sys::open(c"/dev/null", sys::O_RDONLY)?,
    };
    sys::dup3(stdin, 0)?;
    sys::dup3(stdout, 1)?;
    sys::dup3(stderr, 2)?;
    sys::dup3(control, 3)?;
    sys::close_from(4)
}

const RLIMIT_CPU: u32 = 0;

fn set_rlimits(entry: &Entry) -> Result<(), Errno> {
    for limit in entry.rlimits() {
        // A hard limit can only be lowered: keep what the host already holds tighter.
        let (_, hard) = sys::rlimit(limit.resource)?;
        let soft = limit.value.min(hard);
        // SIGXCPU comes at the soft limit and says what happened; SIGKILL at the hard one does not.
        let grace = u64::from(limit.resource == RLIMIT_CPU);
        sys::set_rlimit(limit.resource, soft, soft.saturating_add(grace).min(hard))?;
    }
    Ok(())
}

fn settle() -> Result<(), Errno> {
    sys::setsid()?;
    sys::umask(0o022);
    sys::set_signal_mask(0)?;
    sys::chdir(c"/workspace")
}

const PR_CAPBSET_DROP: usize = 24;
const PR_SET_SECUREBITS: usize = 28;
const PR_SET_NO_NEW_PRIVS: usize = 38;
const PR_CAP_AMBIENT: usize = 47;
const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;

/// `NOROOT`, `NO_SETUID_FIXUP`, `NO_CAP_AMBIENT_RAISE` and the lock of each; capabilities(7).
const SECUREBITS_LOCKED: usize = 0b1100_1111;

/// The kernel stops at its last capability with EINVAL; 64 is the width of the set.
const CAPABILITIES_MAX: usize = 64;

/// Drops every capability from all five sets, and the ways to get one back.
pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    sys::prctl(PR_SET_SECUREBITS, SECUREBITS_LOCKED)?;
    keep_capabilities(0)
}

/// Drops every capability outside `kept` from all five sets.
pub(crate) fn keep_capabilities(kept: u64) -> Result<(), Errno> {
    bound_capabilities(kept)?;
    sys::set_capabilities(kept)
}

/// Drops every capability outside `kept` from what could ever be gained.
fn bound_capabilities(kept: u64) -> Result<(), Errno> {
    sys::prctl3(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0)?;
    for capability in 0..CAPABILITIES_MAX {
        if kept >> capability & 1 == 1 {
            continue;
        }
        match sys::prctl(PR_CAPBSET_DROP, capability) {
            Ok(_) => {}
            Err(sys::EINVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Gives up the ways to gain a right; for the enclosure's init, while it waits for its order. The one
/// call per capability that this takes would be a good part of making an enclosure.
pub fn forsake_bounds() -> Result<(), Errno> {
    bound_capabilities(0)
}

/// Gives up every right it still has but the open descriptors; for the enclosure's init.
pub fn forsake() -> Result<(), Errno> {
    sys::prctl(PR_SET_SECUREBITS, SECUREBITS_LOCKED)?;
    sys::set_capabilities(0)?;
    no_new_privileges()
}

/// Keeps only the calls a filter allows; for the enclosure's init, which enters nothing.
pub fn keep_calls(filter: &[Instruction]) -> Result<(), Errno> {
    sys::load_filter(filter)
}

/// Sets `no_new_privs`, without which an unprivileged process may load neither filter nor domain.
pub(crate) fn no_new_privileges() -> Result<(), Errno> {
    sys::prctl(PR_SET_NO_NEW_PRIVS, 1).map(drop)
}

/// Loads what is missing of the filters; from here on entering is impossible.
fn lock_in(filter: FinalFilter<'_>) -> Result<(), Errno> {
    if let FinalFilter::Load(program) = filter {
        sys::load_filter(program)?;
    }
    sys::load_filter(&NO_MORE_ENTERING)
}

const fn op(code: u16, operand: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code, jump_true, jump_false, operand }
}

/// Takes away the calls that the zygote's filter had to leave open for entering: `setresuid` 117,
/// `setresgid` 119, `capset` 126, `setns` 308, `seccomp` 317, and those of Landlock, 444 to 446. Each
/// answers EPERM. The architecture was checked by the filter below this one. Short, because the
/// kernel walks a filter once for every system call number when it is loaded.
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

/// Tells the host over the control socket which step refused, as a frame of the guest protocol.
pub fn report_refusal(entry: &Entry, (step, errno): Refusal) {
    let mut head = [0_u8; 128];
    let mut length = 8;
    let mut push = |bytes: &[u8]| {
        head[length..length + bytes.len()].copy_from_slice(bytes);
        length += bytes.len();
    };
    push(b"{\"type\":\"refused\",\"step\":\"");
    push(step.name().as_bytes());
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
    head[..4].copy_from_slice(&head_length.to_le_bytes());
    // After the descriptors were placed, the control socket is descriptor 3.
    let placed = step as u32 > Step::Descriptors as u32;
    let control = if placed { 3 } else { entry.streams()[0] };
    let _ = sys::send(control, &head[..length]);
}
