//! The system calls that no crate we use wraps, one safe function each; the jail's only `unsafe`.
#![expect(unsafe_code, reason = "the one place where the jail speaks to the kernel directly")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;

/// Which side of a fork this is.
pub(crate) enum Forked {
    /// The new process.
    Child,
    /// The caller, with the child's pid and a descriptor for it.
    Parent {
        /// The child.
        pid: Pid,
        /// Its pidfd.
        pidfd: OwnedFd,
    },
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Forks into new namespaces (`CLONE_NEW*`, or none).
///
/// The calling process must have one thread: then the child is an ordinary copy that may do all the
/// parent could. The zone's processes are written that way.
pub(crate) fn fork_into(namespaces: u64) -> io::Result<Forked> {
    let mut pidfd: libc::c_int = -1;
    let mut arguments = libc::clone_args {
        flags: namespaces | libc::CLONE_PIDFD as u64,
        pidfd: (&raw mut pidfd).expose_provenance() as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    // SAFETY: no CLONE_VM and no new stack, so the child runs on its own copy of this one; the
    // structure and the pidfd it points to are live. One thread, so no lock is held by another.
    let pid = check(unsafe {
        libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>())
    })?;
    let Some(pid) = Pid::from_raw(pid as i32) else {
        return Ok(Forked::Child);
    };
    // SAFETY: on success in the parent the kernel stored a new descriptor that nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Forked::Parent { pid, pidfd })
}

/// Joins a namespace, or points children at it.
pub(crate) fn setns(namespace: BorrowedFd<'_>, kind: i32) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind) }.into()).map(drop)
}

/// Leaves namespaces for new ones.
pub(crate) fn unshare(namespaces: i32) -> io::Result<()> {
    // SAFETY: plain numbers; descriptors and memory stay shared with nobody, there is one thread.
    check(unsafe { libc::unshare(namespaces) }.into()).map(drop)
}

/// Takes one user and group id, real, effective and saved.
pub(crate) fn set_ids(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::setresgid(gid, gid, gid) }.into())?;
    // SAFETY: plain numbers.
    check(unsafe { libc::setresuid(uid, uid, uid) }.into()).map(drop)
}

/// Gives up all supplementary groups.
pub(crate) fn drop_groups() -> io::Result<()> {
    // SAFETY: a count of zero with a null list.
    check(unsafe { libc::setgroups(0, std::ptr::null()) }.into()).map(drop)
}

/// Makes /proc/self belong to this process again after a change of ids.
pub(crate) fn set_dumpable(dumpable: bool) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, i32::from(dumpable), 0, 0, 0) }.into())
        .map(drop)
}

/// Sets mount attributes on a detached tree or a mount and all below it.
pub(crate) fn mount_attributes(mount: BorrowedFd<'_>, set: u64) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    const AT_RECURSIVE: libc::c_int = 0x8000;
    let attributes = Attributes { set, clear: 0, propagation: 0, user_namespace: 0 };
    let empty = c"";
    // SAFETY: the structure is `struct mount_attr` with its size; the path is an empty string.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            empty.as_ptr(),
            libc::AT_EMPTY_PATH | AT_RECURSIVE,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    })
    .map(drop)
}

/// Brings the loopback interface of the current network namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    // SAFETY: an all-zero `ifreq` is a value of that type.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which lives here.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }.into())
        .map(drop)
}

/// Replaces this process by a program; returns only on failure.
pub(crate) fn execute(
    program: &CString,
    arguments: &[CString],
    environment: &[CString],
) -> io::Error {
    let list = |items: &[CString]| -> Vec<*const libc::c_char> {
        items.iter().map(|item| item.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, environment) = (list(arguments), list(environment));
    // SAFETY: both lists end in null and point to strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Ends this process without running anything of it.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: never returns and touches nothing.
    unsafe { libc::_exit(status) }
}

/// Blocks SIGCHLD and returns a descriptor that reports it.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: an all-zero signal set is a value of that type; it is emptied next.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is live and exclusively held.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: as above, and SIGCHLD is a valid signal.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // SAFETY: `set` is live; the old mask is not asked for.
    let blocked =
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    check(blocked.into())?;
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: `set` is live; -1 asks for a new descriptor.
    let fd = check(unsafe { libc::signalfd(-1, &raw const set, flags) }.into())?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Waits for SIGCHLD, which must be blocked.
pub(crate) fn wait_for_child_signal() {
    // SAFETY: an all-zero signal set is a value of that type; it is emptied next.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is live and exclusively held.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: as above, and SIGCHLD is a valid signal.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // SAFETY: `set` is live; neither details nor a timeout are asked for.
    unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), std::ptr::null()) };
}

/// The Landlock version the kernel offers, 0 for none.
pub fn landlock_version() -> u32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel takes no structure and only answers its version.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// Takes over descriptor 0, which the process that started this one handed over as a socket, under
/// another number, and leaves an empty standard input behind.
pub(crate) fn take_stdin() -> io::Result<OwnedFd> {
    let stdin = rustix::stdio::stdin();
    let taken = rustix::io::fcntl_dupfd_cloexec(stdin, 3)?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(taken)
}

/// Takes over descriptor 3, where the gate puts the control socket of a process that has entered, so
/// that a program it becomes does not have it.
pub(crate) fn take_control() -> OwnedFd {
    // SAFETY: the gate has just put it there, and nothing of this process knows the number.
    let control = unsafe { OwnedFd::from_raw_fd(3) };
    // Fails only for a descriptor that is not open.
    let _ = rustix::io::fcntl_setfd(&control, rustix::io::FdFlags::CLOEXEC);
    control
}

/// Gives every signal its default meaning: those that somebody up the line ignores, as the Rust
/// runtime does with SIGPIPE and `nohup` with SIGHUP, would otherwise be ignored by a program too.
pub(crate) fn default_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: installs no function. The few signals that cannot be set are left as they are.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Closes every descriptor. Only for a process that uses none any more.
pub(crate) fn close_all() -> io::Result<()> {
    // SAFETY: the caller uses no descriptor from here on, owned or not.
    check(unsafe { libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32) }).map(drop)
}

/// Closes every descriptor but the standard ones and `kept`. Only for a process that has just been
/// forked and uses nothing of what its parent had open.
pub(crate) fn close_all_but(kept: BorrowedFd<'_>) -> io::Result<()> {
    let kept = kept.as_raw_fd().cast_unsigned();
    for (first, last) in [(3, kept.saturating_sub(1)), (kept.saturating_add(1), u32::MAX)] {
        if first <= last {
            // SAFETY: the caller uses no other descriptor from here on, owned or not.
            check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) })?;
        }
    }
    Ok(())
}

/// Makes `from` also known as `to`, kept over an exec.
pub(crate) fn duplicate_to(from: BorrowedFd<'_>, to: i32) -> io::Result<()> {
    // SAFETY: plain numbers; `to` is 0 to 3 in a process about to exec, owned by nobody.
    check(unsafe { libc::dup2(from.as_raw_fd(), to) }.into()).map(drop)
}
