//! The rules, each with its reason. A call that no rule names fails with EPERM.

/// What happens to the calls of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallAction {
    /// The call goes through.
    Allow,
    /// The call fails with ENOSYS, the only error on which callers take their fallback.
    NoSuchCall,
    /// The call goes through if the check on its arguments holds.
    When(ArgumentCheck),
}

/// A test of arguments. It compares only the low half of an argument of which the kernel uses only
/// the low half: otherwise a value with high bits set would pass a test for the value without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentCheck {
    /// No bit of `mask` is set in argument `argument`.
    NoneOf {
        /// Which argument, from 0.
        argument: u8,
        /// The forbidden bits.
        mask: u32,
    },
    /// The low half of `argument` is one of `values`.
    OneOf {
        /// Which argument, from 0.
        argument: u8,
        /// The allowed values.
        values: &'static [u32],
    },
    /// The low half of `argument` is none of `values`.
    NotOneOf {
        /// Which argument, from 0.
        argument: u8,
        /// The forbidden values.
        values: &'static [u32],
    },
    /// `argument & mask` is none of `values`.
    MaskedNotOneOf {
        /// Which argument, from 0.
        argument: u8,
        /// The bits looked at.
        mask: u32,
        /// The forbidden values.
        values: &'static [u32],
    },
    /// Each argument, masked, is one of its values.
    Each {
        /// Argument, mask, allowed values.
        tests: &'static [(u8, u32, &'static [u32])],
    },
}

/// System calls, what happens to them, and why.
#[derive(Clone, Copy, Debug)]
pub struct CallRule {
    /// Names and numbers.
    pub calls: &'static [(&'static str, u32)],
    /// What happens to them.
    pub action: CallAction,
    /// Why.
    pub reason: &'static str,
}

/// What the filter decides by the number alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallVerdict {
    /// A rule names the call.
    Ruled(CallAction),
    /// No rule names the call: EPERM.
    Denied,
    /// The call is newer than this build: ENOSYS.
    Unknown,
}

/// The highest number that this build knows; calls above fail with ENOSYS.
pub const HIGHEST_KNOWN: u32 = 462;

/// The calls that are allowed only until the process is locked in; the gate's second filter denies
/// them with EPERM.
pub const ENTERING_ONLY: [u32; 8] = [
    number(libc::SYS_setns),
    number(libc::SYS_setresuid),
    number(libc::SYS_setresgid),
    number(libc::SYS_capset),
    number(libc::SYS_seccomp),
    number(libc::SYS_landlock_create_ruleset),
    number(libc::SYS_landlock_add_rule),
    number(libc::SYS_landlock_restrict_self),
];

/// `socket(2)`: AF_UNIX, AF_INET, AF_INET6; SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET; the default
/// protocol, TCP and UDP.
const SOCKETS: &[(u8, u32, &[u32])] =
    &[(0, u32::MAX, &[1, 2, 10]), (1, 0xff, &[1, 2, 5]), (2, u32::MAX, &[0, 6, 17])];

/// The `prctl(2)` options that go through.
const PRCTL_OPTIONS: &[u32] = &[
    1,           // PR_SET_PDEATHSIG
    2,           // PR_GET_PDEATHSIG
    3,           // PR_GET_DUMPABLE
    4,           // PR_SET_DUMPABLE
    15,          // PR_SET_NAME
    16,          // PR_GET_NAME
    23,          // PR_CAPBSET_READ
    24,          // PR_CAPBSET_DROP, of entering
    27,          // PR_GET_SECUREBITS
    28,          // PR_SET_SECUREBITS, of entering
    30,          // PR_GET_TIMERSLACK
    36,          // PR_SET_CHILD_SUBREAPER
    37,          // PR_GET_CHILD_SUBREAPER
    38,          // PR_SET_NO_NEW_PRIVS
    39,          // PR_GET_NO_NEW_PRIVS
    41,          // PR_SET_THP_DISABLE
    42,          // PR_GET_THP_DISABLE
    47,          // PR_CAP_AMBIENT, of entering
    0x5356_4d41, // PR_SET_VMA, names of anonymous memory
];

/// Returns what the filter decides by the number alone.
pub fn verdict(rules: &[CallRule], number: u32) -> CallVerdict {
    let named = |rule: &&CallRule| rule.calls.iter().any(|&(_, call)| call == number);
    match rules.iter().find(named) {
        Some(rule) => CallVerdict::Ruled(rule.action),
        None if number > HIGHEST_KNOWN => CallVerdict::Unknown,
        None => CallVerdict::Denied,
    }
}

/// The rules of an enclosure's init once it is set up.
pub(crate) const INIT_RULES: &[CallRule] = &[CallRule {
    calls: &[
        ("rt_sigtimedwait", number(libc::SYS_rt_sigtimedwait)),
        ("wait4", number(libc::SYS_wait4)),
        ("rt_sigreturn", number(libc::SYS_rt_sigreturn)),
        ("restart_syscall", number(libc::SYS_restart_syscall)),
        ("exit_group", number(libc::SYS_exit_group)),
    ],
    action: CallAction::Allow,
    reason: "Waiting for children and collecting them.",
}];

const fn number(call: libc::c_long) -> u32 {
    call as u32
}

/// The filter of every guest process.
pub const RULES: &[CallRule] = &[
    CallRule {
        calls: &[
            ("read", number(libc::SYS_read)),
            ("write", number(libc::SYS_write)),
            ("readv", number(libc::SYS_readv)),
            ("writev", number(libc::SYS_writev)),
            ("pread64", number(libc::SYS_pread64)),
            ("pwrite64", number(libc::SYS_pwrite64)),
            ("preadv", number(libc::SYS_preadv)),
            ("pwritev", number(libc::SYS_pwritev)),
            ("preadv2", number(libc::SYS_preadv2)),
            ("pwritev2", number(libc::SYS_pwritev2)),
            ("lseek", number(libc::SYS_lseek)),
            ("close", number(libc::SYS_close)),
            ("close_range", number(libc::SYS_close_range)),
            ("dup", number(libc::SYS_dup)),
            ("dup2", number(libc::SYS_dup2)),
            ("dup3", number(libc::SYS_dup3)),
            ("pipe", number(libc::SYS_pipe)),
            ("pipe2", number(libc::SYS_pipe2)),
            ("fsync", number(libc::SYS_fsync)),
            ("fdatasync", number(libc::SYS_fdatasync)),
            ("sync_file_range", number(libc::SYS_sync_file_range)),
            ("ftruncate", number(libc::SYS_ftruncate)),
            ("truncate", number(libc::SYS_truncate)),
            ("fallocate", number(libc::SYS_fallocate)),
            ("fadvise64", number(libc::SYS_fadvise64)),
            ("flock", number(libc::SYS_flock)),
        ],
        action: CallAction::Allow,
        reason: "Reading and writing open files, sockets and pipes.",
    },
    CallRule {
        calls: &[
            ("open", number(libc::SYS_open)),
            ("openat", number(libc::SYS_openat)),
            ("openat2", number(libc::SYS_openat2)),
            ("creat", number(libc::SYS_creat)),
            ("stat", number(libc::SYS_stat)),
            ("lstat", number(libc::SYS_lstat)),
            ("fstat", number(libc::SYS_fstat)),
            ("newfstatat", number(libc::SYS_newfstatat)),
            ("statx", number(libc::SYS_statx)),
            ("statfs", number(libc::SYS_statfs)),
            ("fstatfs", number(libc::SYS_fstatfs)),
            ("access", number(libc::SYS_access)),
            ("faccessat", number(libc::SYS_faccessat)),
            ("faccessat2", number(libc::SYS_faccessat2)),
            ("getdents", number(libc::SYS_getdents)),
            ("getdents64", number(libc::SYS_getdents64)),
            ("getcwd", number(libc::SYS_getcwd)),
            ("chdir", number(libc::SYS_chdir)),
            ("fchdir", number(libc::SYS_fchdir)),
            ("readlink", number(libc::SYS_readlink)),
            ("readlinkat", number(libc::SYS_readlinkat)),
            ("mkdir", number(libc::SYS_mkdir)),
            ("mkdirat", number(libc::SYS_mkdirat)),
            ("rmdir", number(libc::SYS_rmdir)),
            ("unlink", number(libc::SYS_unlink)),
            ("unlinkat", number(libc::SYS_unlinkat)),
            ("rename", number(libc::SYS_rename)),
            ("renameat", number(libc::SYS_renameat)),
            ("renameat2", number(libc::SYS_renameat2)),
            ("link", number(libc::SYS_link)),
            ("linkat", number(libc::SYS_linkat)),
            ("symlink", number(libc::SYS_symlink)),
            ("symlinkat", number(libc::SYS_symlinkat)),
            ("chmod", number(libc::SYS_chmod)),
            ("fchmod", number(libc::SYS_fchmod)),
            ("fchmodat", number(libc::SYS_fchmodat)),
            ("fchmodat2", number(libc::SYS_fchmodat2)),
            ("chown", number(libc::SYS_chown)),
            ("fchown", number(libc::SYS_fchown)),
            ("lchown", number(libc::SYS_lchown)),
            ("fchownat", number(libc::SYS_fchownat)),
            ("umask", number(libc::SYS_umask)),
            ("utime", number(libc::SYS_utime)),
            ("utimes", number(libc::SYS_utimes)),
            ("utimensat", number(libc::SYS_utimensat)),
            ("futimesat", number(libc::SYS_futimesat)),
        ],
        action: CallAction::Allow,
        reason: "Opening, naming and inspecting files; the mounts decide what can be reached.",
    },
    CallRule {
        calls: &[
            ("getxattr", number(libc::SYS_getxattr)),
            ("lgetxattr", number(libc::SYS_lgetxattr)),
            ("fgetxattr", number(libc::SYS_fgetxattr)),
            ("listxattr", number(libc::SYS_listxattr)),
            ("llistxattr", number(libc::SYS_llistxattr)),
            ("flistxattr", number(libc::SYS_flistxattr)),
            ("setxattr", number(libc::SYS_setxattr)),
            ("lsetxattr", number(libc::SYS_lsetxattr)),
            ("fsetxattr", number(libc::SYS_fsetxattr)),
            ("removexattr", number(libc::SYS_removexattr)),
            ("lremovexattr", number(libc::SYS_lremovexattr)),
            ("fremovexattr", number(libc::SYS_fremovexattr)),
        ],
        action: CallAction::Allow,
        reason: "Extended attributes: archivers and copy tools read and set those of the user.",
    },
    CallRule {
        calls: &[
            ("brk", number(libc::SYS_brk)),
            ("mmap", number(libc::SYS_mmap)),
            ("mprotect", number(libc::SYS_mprotect)),
            ("munmap", number(libc::SYS_munmap)),
            ("mremap", number(libc::SYS_mremap)),
            ("madvise", number(libc::SYS_madvise)),
            ("msync", number(libc::SYS_msync)),
            ("mlock", number(libc::SYS_mlock)),
            ("munlock", number(libc::SYS_munlock)),
            ("mlock2", number(libc::SYS_mlock2)),
            ("memfd_create", number(libc::SYS_memfd_create)),
            ("membarrier", number(libc::SYS_membarrier)),
        ],
        action: CallAction::Allow,
        reason: "Memory of the process itself; interpreters, BLAS and JIT compilers need all of it.",
    },
    CallRule {
        calls: &[
            ("fork", number(libc::SYS_fork)),
            ("vfork", number(libc::SYS_vfork)),
            ("execve", number(libc::SYS_execve)),
            ("execveat", number(libc::SYS_execveat)),
            ("exit", number(libc::SYS_exit)),
            ("exit_group", number(libc::SYS_exit_group)),
            ("wait4", number(libc::SYS_wait4)),
            ("waitid", number(libc::SYS_waitid)),
            ("getpid", number(libc::SYS_getpid)),
            ("getppid", number(libc::SYS_getppid)),
            ("gettid", number(libc::SYS_gettid)),
            ("getpgid", number(libc::SYS_getpgid)),
            ("getpgrp", number(libc::SYS_getpgrp)),
            ("getsid", number(libc::SYS_getsid)),
            ("setpgid", number(libc::SYS_setpgid)),
            ("setsid", number(libc::SYS_setsid)),
            ("pidfd_open", number(libc::SYS_pidfd_open)),
            ("pidfd_send_signal", number(libc::SYS_pidfd_send_signal)),
        ],
        action: CallAction::Allow,
        reason: "Processes and programs: subprocess, multiprocessing and shells.",
    },
    CallRule {
        calls: &[
            ("kill", number(libc::SYS_kill)),
            ("tkill", number(libc::SYS_tkill)),
            ("tgkill", number(libc::SYS_tgkill)),
            ("rt_sigaction", number(libc::SYS_rt_sigaction)),
            ("rt_sigprocmask", number(libc::SYS_rt_sigprocmask)),
            ("rt_sigreturn", number(libc::SYS_rt_sigreturn)),
            ("rt_sigpending", number(libc::SYS_rt_sigpending)),
            ("rt_sigtimedwait", number(libc::SYS_rt_sigtimedwait)),
            ("rt_sigqueueinfo", number(libc::SYS_rt_sigqueueinfo)),
            ("rt_tgsigqueueinfo", number(libc::SYS_rt_tgsigqueueinfo)),
            ("rt_sigsuspend", number(libc::SYS_rt_sigsuspend)),
            ("sigaltstack", number(libc::SYS_sigaltstack)),
            ("pause", number(libc::SYS_pause)),
            ("alarm", number(libc::SYS_alarm)),
            ("getitimer", number(libc::SYS_getitimer)),
            ("setitimer", number(libc::SYS_setitimer)),
            ("timer_create", number(libc::SYS_timer_create)),
            ("timer_settime", number(libc::SYS_timer_settime)),
            ("timer_gettime", number(libc::SYS_timer_gettime)),
            ("timer_getoverrun", number(libc::SYS_timer_getoverrun)),
            ("timer_delete", number(libc::SYS_timer_delete)),
            ("timerfd_create", number(libc::SYS_timerfd_create)),
            ("timerfd_settime", number(libc::SYS_timerfd_settime)),
            ("timerfd_gettime", number(libc::SYS_timerfd_gettime)),
            ("signalfd", number(libc::SYS_signalfd)),
            ("signalfd4", number(libc::SYS_signalfd4)),
            ("restart_syscall", number(libc::SYS_restart_syscall)),
        ],
        action: CallAction::Allow,
        reason: "Signals and timers within the sandbox; the pid namespace keeps them there.",
    },
    CallRule {
        calls: &[
            ("futex", number(libc::SYS_futex)),
            ("futex_waitv", number(libc::SYS_futex_waitv)),
            ("set_robust_list", number(libc::SYS_set_robust_list)),
            ("get_robust_list", number(libc::SYS_get_robust_list)),
            ("set_tid_address", number(libc::SYS_set_tid_address)),
            ("rseq", number(libc::SYS_rseq)),
            ("arch_prctl", number(libc::SYS_arch_prctl)),
            ("sched_yield", number(libc::SYS_sched_yield)),
            ("sched_getaffinity", number(libc::SYS_sched_getaffinity)),
            ("sched_getparam", number(libc::SYS_sched_getparam)),
            ("sched_getscheduler", number(libc::SYS_sched_getscheduler)),
            ("sched_get_priority_max", number(libc::SYS_sched_get_priority_max)),
            ("sched_get_priority_min", number(libc::SYS_sched_get_priority_min)),
            ("sched_rr_get_interval", number(libc::SYS_sched_rr_get_interval)),
            ("getcpu", number(libc::SYS_getcpu)),
        ],
        action: CallAction::Allow,
        reason: "Threads and locks.",
    },
    CallRule {
        calls: &[
            ("poll", number(libc::SYS_poll)),
            ("ppoll", number(libc::SYS_ppoll)),
            ("select", number(libc::SYS_select)),
            ("pselect6", number(libc::SYS_pselect6)),
            ("epoll_create", number(libc::SYS_epoll_create)),
            ("epoll_create1", number(libc::SYS_epoll_create1)),
            ("epoll_ctl", number(libc::SYS_epoll_ctl)),
            ("epoll_wait", number(libc::SYS_epoll_wait)),
            ("epoll_pwait", number(libc::SYS_epoll_pwait)),
            ("epoll_pwait2", number(libc::SYS_epoll_pwait2)),
            ("eventfd", number(libc::SYS_eventfd)),
            ("eventfd2", number(libc::SYS_eventfd2)),
        ],
        action: CallAction::Allow,
        reason: "Waiting for events; asyncio is built on it.",
    },
    CallRule {
        calls: &[
            ("bind", number(libc::SYS_bind)),
            ("listen", number(libc::SYS_listen)),
            ("accept", number(libc::SYS_accept)),
            ("accept4", number(libc::SYS_accept4)),
            ("connect", number(libc::SYS_connect)),
            ("shutdown", number(libc::SYS_shutdown)),
            ("getsockname", number(libc::SYS_getsockname)),
            ("getpeername", number(libc::SYS_getpeername)),
            ("getsockopt", number(libc::SYS_getsockopt)),
            ("setsockopt", number(libc::SYS_setsockopt)),
        ],
        action: CallAction::Allow,
        reason: "Sockets once made; the network namespace holds nothing but loopback.",
    },
    CallRule {
        calls: &[
            ("clock_gettime", number(libc::SYS_clock_gettime)),
            ("clock_getres", number(libc::SYS_clock_getres)),
            ("clock_nanosleep", number(libc::SYS_clock_nanosleep)),
            ("nanosleep", number(libc::SYS_nanosleep)),
            ("gettimeofday", number(libc::SYS_gettimeofday)),
            ("time", number(libc::SYS_time)),
            ("times", number(libc::SYS_times)),
        ],
        action: CallAction::Allow,
        reason: "Clocks and sleeping.",
    },
    CallRule {
        calls: &[
            ("getuid", number(libc::SYS_getuid)),
            ("geteuid", number(libc::SYS_geteuid)),
            ("getgid", number(libc::SYS_getgid)),
            ("getegid", number(libc::SYS_getegid)),
            ("getresuid", number(libc::SYS_getresuid)),
            ("getresgid", number(libc::SYS_getresgid)),
            ("getgroups", number(libc::SYS_getgroups)),
            ("capget", number(libc::SYS_capget)),
            ("uname", number(libc::SYS_uname)),
            ("sysinfo", number(libc::SYS_sysinfo)),
            ("getrandom", number(libc::SYS_getrandom)),
            ("getrusage", number(libc::SYS_getrusage)),
            ("getrlimit", number(libc::SYS_getrlimit)),
            ("setrlimit", number(libc::SYS_setrlimit)),
            ("prlimit64", number(libc::SYS_prlimit64)),
            ("getpriority", number(libc::SYS_getpriority)),
            ("setpriority", number(libc::SYS_setpriority)),
        ],
        action: CallAction::Allow,
        reason: "Reading ids, the system's name, limits and usage; random numbers.",
    },
    CallRule {
        calls: &[
            ("setns", number(libc::SYS_setns)),
            ("setresuid", number(libc::SYS_setresuid)),
            ("setresgid", number(libc::SYS_setresgid)),
            ("capset", number(libc::SYS_capset)),
            ("seccomp", number(libc::SYS_seccomp)),
            ("landlock_create_ruleset", number(libc::SYS_landlock_create_ruleset)),
            ("landlock_add_rule", number(libc::SYS_landlock_add_rule)),
            ("landlock_restrict_self", number(libc::SYS_landlock_restrict_self)),
        ],
        action: CallAction::Allow,
        reason: "Entering an enclosure. A second filter takes these away before the first user instruction.",
    },
    CallRule {
        calls: &[("clone", number(libc::SYS_clone))],
        action: CallAction::When(ArgumentCheck::NoneOf { argument: 0, mask: 0x7e02_0000 }),
        reason: "Threads and processes, but no new namespace of any kind.",
    },
    CallRule {
        calls: &[("socket", number(libc::SYS_socket))],
        action: CallAction::When(ArgumentCheck::Each { tests: SOCKETS }),
        reason: "Local, IPv4 and IPv6 sockets for loopback servers; plain streams, datagrams and packets over TCP and UDP; no raw sockets, no protocol and no family that reaches kernel code with a history (AF_ALG, AF_NETLINK, AF_PACKET, AF_VSOCK, AF_RXRPC, AF_KEY).",
    },
    CallRule {
        calls: &[("socketpair", number(libc::SYS_socketpair))],
        action: CallAction::When(ArgumentCheck::OneOf { argument: 0, values: &[1] }),
        reason: "Pairs of local sockets only.",
    },
    CallRule {
        calls: &[
            ("sendto", number(libc::SYS_sendto)),
            ("recvfrom", number(libc::SYS_recvfrom)),
            ("sendmmsg", number(libc::SYS_sendmmsg)),
            ("recvmmsg", number(libc::SYS_recvmmsg)),
        ],
        action: CallAction::When(ArgumentCheck::NoneOf { argument: 3, mask: 1 }),
        reason: "Sending and receiving without MSG_OOB, whose handling of local sockets was exploitable (CVE-2025-38236).",
    },
    CallRule {
        calls: &[("sendmsg", number(libc::SYS_sendmsg)), ("recvmsg", number(libc::SYS_recvmsg))],
        action: CallAction::When(ArgumentCheck::NoneOf { argument: 2, mask: 1 }),
        reason: "Sending and receiving without MSG_OOB, where the flags are the third argument.",
    },
    CallRule {
        calls: &[("ioctl", number(libc::SYS_ioctl))],
        action: CallAction::When(ArgumentCheck::NotOneOf {
            argument: 1,
            values: &[0x5412, 0x541c, 0x541d, 0x5423],
        }),
        reason: "Terminal control without TIOCSTI, TIOCLINUX and TIOCCONS, which put input into another terminal or take its output, and without TIOCSETD, which loads line disciplines.",
    },
    CallRule {
        calls: &[("fcntl", number(libc::SYS_fcntl))],
        action: CallAction::When(ArgumentCheck::NotOneOf { argument: 1, values: &[1024, 1026] }),
        reason: "Descriptor flags and record locks, without leases and directory notification.",
    },
    CallRule {
        calls: &[("mknodat", number(libc::SYS_mknodat))],
        action: CallAction::When(ArgumentCheck::MaskedNotOneOf {
            argument: 2,
            mask: 0o170_000,
            values: &[0o020_000, 0o060_000],
        }),
        reason: "Named pipes and sockets, no device nodes.",
    },
    CallRule {
        calls: &[("personality", number(libc::SYS_personality))],
        action: CallAction::When(ArgumentCheck::OneOf { argument: 0, values: &[0xffff_ffff] }),
        reason: "Asking for the personality, not changing it (that would switch address randomisation off).",
    },
    CallRule {
        calls: &[("prctl", number(libc::SYS_prctl))],
        action: CallAction::When(ArgumentCheck::OneOf { argument: 0, values: PRCTL_OPTIONS }),
        reason: "Naming threads, parent death signals, and what entering itself needs; harmless without capabilities.",
    },
    CallRule {
        calls: &[("clone3", number(libc::SYS_clone3))],
        action: CallAction::NoSuchCall,
        reason: "Flags of clone3 sit in memory where a filter cannot look; libraries fall back to clone.",
    },
    CallRule {
        calls: &[
            ("splice", number(libc::SYS_splice)),
            ("tee", number(libc::SYS_tee)),
            ("vmsplice", number(libc::SYS_vmsplice)),
            ("sendfile", number(libc::SYS_sendfile)),
            ("copy_file_range", number(libc::SYS_copy_file_range)),
        ],
        action: CallAction::NoSuchCall,
        reason: "Moving pages between files and pipes: the way of every recent page cache attack; all callers copy instead.",
    },
    CallRule {
        calls: &[
            ("io_uring_setup", number(libc::SYS_io_uring_setup)),
            ("io_uring_enter", number(libc::SYS_io_uring_enter)),
            ("io_uring_register", number(libc::SYS_io_uring_register)),
            ("memfd_secret", number(libc::SYS_memfd_secret)),
            ("userfaultfd", number(libc::SYS_userfaultfd)),
            ("pkey_alloc", number(libc::SYS_pkey_alloc)),
            ("pkey_free", number(libc::SYS_pkey_free)),
            ("pkey_mprotect", number(libc::SYS_pkey_mprotect)),
        ],
        action: CallAction::NoSuchCall,
        reason: "A large attack surface that callers do without.",
    },
];
