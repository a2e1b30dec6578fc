//! Safe wrappers of the system calls that no dependency wraps safely; the jail's only `unsafe`
//! code.
#![expect(unsafe_code, reason = "the one place where the jail makes system calls itself")]

use std::ffi::CString;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Pid;

/// The side of a fork.
pub(crate) enum Forked {
    /// The new process.
    Child,
    /// The caller, with the child's pid and pidfd.
    Parent { pid: Pid, pidfd: OwnedFd },
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The flags of clone(2) that [`fork_into`] takes.
const NAMESPACE_FLAGS: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

/// Forks into new namespaces (`CLONE_NEW*`, or none); other flags are an error.
///
/// The calling process must have one thread, as all processes of a zone have: a lock that another
/// thread held would stay locked in the child.
pub(crate) fn fork_into(namespaces: u64) -> io::Result<Forked> {
    if namespaces & !NAMESPACE_FLAGS != 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
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
    // SAFETY: there is no CLONE_VM among the flags and no new stack, so the child runs on its own
    // copy of this memory; the structure has the size given, and it and the pidfd it points to are
    // live.
    let pid = check(unsafe {
        libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>())
    })?;
    let Some(pid) = Pid::from_raw(pid as i32) else {
        return Ok(Forked::Child);
    };
    // SAFETY: in the parent, on success, the kernel has stored a new descriptor, which nothing else
    // owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Forked::Parent { pid, pidfd })
}

/// Joins a namespace; for a pid namespace only later children do; setns(2).
pub(crate) fn setns(namespace: BorrowedFd<'_>, kind: i32) -> io::Result<()> {
    // SAFETY: plain numbers; the descriptor is borrowed and open.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind) }.into()).map(drop)
}

/// Moves this process into new namespaces.
pub(crate) fn unshare(namespaces: i32) -> io::Result<()> {
    // SAFETY: a plain number; the call changes no memory.
    check(unsafe { libc::unshare(namespaces) }.into()).map(drop)
}

/// Sets the real, effective and saved user and group id. The group first: without the old user id
/// it could not be changed any more.
pub(crate) fn set_ids(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::setresgid(gid, gid, gid) }.into())?;
    // SAFETY: plain numbers.
    check(unsafe { libc::setresuid(uid, uid, uid) }.into()).map(drop)
}

/// Gives up all supplementary groups.
pub(crate) fn drop_groups() -> io::Result<()> {
    // SAFETY: with a count of zero the kernel does not read the list.
    check(unsafe { libc::setgroups(0, std::ptr::null()) }.into()).map(drop)
}

/// Makes this process dumpable again, and so the owner of its files in /proc, after a change of
/// ids.
pub(crate) fn make_dumpable() -> io::Result<()> {
    // SAFETY: this option takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) }.into()).map(drop)
}

/// Sets attributes of a mount and of all mounts below it.
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
    // SAFETY: the structure is live and has the layout and the size of `struct mount_attr`; the
    // path is a live empty string.
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
    // SAFETY: `ifreq` consists of integers and a union of integers and null pointers, so all zeros
    // are a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which is live.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }.into())
        .map(drop)
}

/// Gives the loopback interface of the current network namespace a second address, `lo:0`. All
/// addresses that share its first `prefix_length` bits become local: packets to them are delivered
/// in this namespace.
pub(crate) fn loopback_alias(address: Ipv4Addr, prefix_length: u8) -> io::Result<()> {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix_length.min(32))).unwrap_or(0);
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    // The address first: it makes the alias, with a mask by the address's historic class.
    for (call, value) in
        [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, Ipv4Addr::from_bits(mask))]
    {
        // SAFETY: `ifreq` consists of integers and a union of integers and null pointers, so all
        // zeros are a value of it.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo:0") {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_addr = internet_address(value);
        // SAFETY: SIOCSIFADDR and SIOCSIFNETMASK read one `ifreq` and keep no pointer to it; it is
        // live, its name ends in zeros, and its address is one of AF_INET; netdevice(7).
        check(unsafe { libc::ioctl(socket.as_raw_fd(), call, &raw const request) }.into())?;
    }
    Ok(())
}

/// Returns an IPv4 address without a port in the layout of `sockaddr_in`: two bytes of port, four
/// of address.
fn internet_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
        *to = from.cast_signed();
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
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
    let arguments = list(arguments);
    let environment = list(environment);
    // SAFETY: both lists end in null and point to NUL-terminated strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Ends this process at once, without destructors and exit handlers.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: the call takes a plain number and does not return.
    unsafe { libc::_exit(status) }
}

/// Blocks SIGCHLD and returns a descriptor that reports it.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: an all-zero signal set is a value of that type; it is emptied next.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is live and exclusively held.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: `set` is live and exclusively held, and SIGCHLD is a valid signal.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // SAFETY: `set` is live; the pointer for the old mask is null.
    let blocked =
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    check(blocked.into())?;
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: `set` is live; -1 asks for a new descriptor.
    let fd = check(unsafe { libc::signalfd(-1, &raw const set, flags) }.into())?;
    // SAFETY: the descriptor was just made, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Waits for SIGCHLD, which must be blocked.
pub(crate) fn wait_for_child_signal() {
    // SAFETY: an all-zero signal set is a value of that type; it is emptied next.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is live and exclusively held.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: `set` is live and exclusively held, and SIGCHLD is a valid signal.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // SAFETY: `set` is live; the pointers for details and to a timeout are null.
    unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), std::ptr::null()) };
}

/// Returns the Landlock version of the kernel, 0 for none.
pub fn landlock_version() -> u32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the structure must be null and the kernel only returns its version.
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

/// Takes over standard input, which is a socket of the process that started this one, under another
/// number, and puts /dev/null in its place.
pub(crate) fn take_stdin() -> io::Result<OwnedFd> {
    let stdin = rustix::stdio::stdin();
    let taken = rustix::io::fcntl_dupfd_cloexec(stdin, 3)?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(taken)
}

/// Takes over descriptor 3, where the gate puts the control socket of a process that has entered,
/// and makes it close on exec, so that the program does not inherit it.
pub(crate) fn take_control() -> OwnedFd {
    // SAFETY: the gate has put a descriptor there and closed all others above 2; what owned one of
    // that number before the fork is never dropped, since this process ends in `execve` or `_exit`.
    let control = unsafe { OwnedFd::from_raw_fd(3) };
    // This fails only for a descriptor that is not open.
    let _ = rustix::io::fcntl_setfd(&control, rustix::io::FdFlags::CLOEXEC);
    control
}

/// Resets every signal to its default action. A signal that is ignored stays ignored over an exec,
/// and the Rust runtime ignores SIGPIPE, `nohup` SIGHUP.
pub(crate) fn default_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: no handler is installed. The call fails for the few signals that cannot be set.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Closes every descriptor. Only for a process that never uses one again.
pub(crate) fn close_all() -> io::Result<()> {
    // SAFETY: plain numbers. The caller uses no descriptor from here on, and drops none of its
    // owners.
    check(unsafe { libc::syscall(libc::SYS_close_range, 0_u32, u32::MAX, 0_u32) }).map(drop)
}

/// Closes every descriptor but the standard ones and `kept`. Only for a process that has just been
/// forked and uses none of the descriptors its parent had open.
pub(crate) fn close_all_but(kept: BorrowedFd<'_>) -> io::Result<()> {
    let kept = kept.as_raw_fd().cast_unsigned();
    for (first, last) in [(3, kept.saturating_sub(1)), (kept.saturating_add(1), u32::MAX)] {
        if first <= last {
            // SAFETY: plain numbers. The caller uses no other descriptor from here on, and drops
            // none of their owners.
            check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0_u32) })?;
        }
    }
    Ok(())
}

/// Duplicates `from` as `to`, which stays open over an exec. Only for a process about to execute.
pub(crate) fn duplicate_to(from: BorrowedFd<'_>, to: i32) -> io::Result<()> {
    // SAFETY: plain numbers. What owned `to` before is not used and not dropped any more, since
    // this process ends in `execve` or `_exit`.
    check(unsafe { libc::dup2(from.as_raw_fd(), to) }.into()).map(drop)
}
