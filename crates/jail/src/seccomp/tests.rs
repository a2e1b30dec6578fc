//! The compiled filter, run by an interpreter of BPF as small as the filter needs.

use std::collections::BTreeMap;

use expect_test::expect;
use silica_gate::Instruction;

use super::*;

const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 0x0005_0000 | libc::EPERM as u32;
const ENOSYS: u32 = 0x0005_0000 | libc::ENOSYS as u32;
const EAFNOSUPPORT: u32 = 0x0005_0000 | libc::EAFNOSUPPORT as u32;

/// What a filter sees of a call: `struct seccomp_data`.
#[derive(Clone, Copy)]
struct Call {
    number: u32,
    architecture: u32,
    arguments: [u64; 6],
}

impl Call {
    fn new(number: u32, arguments: &[u64]) -> Self {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        Self { number, architecture: X86_64, arguments: all }
    }

    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.number,
            4 => self.architecture,
            16..64 if offset.is_multiple_of(4) => {
                let argument = self.arguments[(offset as usize - 16) / 8];
                if offset.is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 }
            }
            _ => panic!("the filter reads at {offset}"),
        }
    }
}

/// Runs a filter as the kernel would.
fn run(program: &[Instruction], call: &Call) -> u32 {
    let mut at = 0;
    let mut accumulator = 0_u32;
    loop {
        let Instruction { code, jump_true, jump_false, operand } = program[at];
        at += 1;
        let branch = |holds: bool| usize::from(if holds { jump_true } else { jump_false });
        match code {
            0x20 => accumulator = call.word(operand),
            0x54 => accumulator &= operand,
            0x05 => at += operand as usize,
            0x15 => at += branch(accumulator == operand),
            0x35 => at += branch(accumulator >= operand),
            0x45 => at += branch(accumulator & operand != 0),
            0x06 => return operand,
            _ => panic!("the interpreter does not know operation {code:#x}"),
        }
    }
}

fn number_of(name: &str) -> u32 {
    let calls = RULES.iter().flat_map(|rule| rule.calls);
    calls.clone().find(|(one, _)| *one == name).unwrap_or_else(|| panic!("no rule names {name}")).1
}

/// Arguments that every check lets through.
fn benign(number: u32) -> Vec<u64> {
    let name = RULES.iter().flat_map(|rule| rule.calls).find(|(_, one)| *one == number);
    match name.map(|(name, _)| *name) {
        Some("socket" | "socketpair") => vec![1, 1],
        Some("personality") => vec![0xffff_ffff],
        Some("prctl") => vec![15],
        _ => vec![],
    }
}

#[test]
fn program_answers_every_number_as_the_rules_say() {
    let program = compile(RULES);
    for number in 0..=600 {
        let expected = match verdict(RULES, number) {
            CallVerdict::Ruled(CallAction::Allow | CallAction::When(_)) => ALLOW,
            CallVerdict::Ruled(CallAction::NoSuchCall) | CallVerdict::Unknown => ENOSYS,
            CallVerdict::Denied => EPERM,
        };
        let answer = run(&program, &Call::new(number, &benign(number)));
        assert_eq!(answer, expected, "number {number}: {answer:#x}");
    }
}

#[test]
fn init_may_do_nothing_but_reap() {
    let program = compile(INIT_RULES);
    let allowed: Vec<u32> =
        (0..=600).filter(|&number| run(&program, &Call::new(number, &[])) == ALLOW).collect();
    let mut named: Vec<u32> =
        INIT_RULES.iter().flat_map(|rule| rule.calls).map(|(_, number)| *number).collect();
    named.sort_unstable();
    assert_eq!(allowed, named);
}

#[test]
fn foreign_calls_kill() {
    for rules in [RULES, INIT_RULES] {
        let program = compile(rules);
        for number in 0..=600 {
            let mut call = Call::new(number, &benign(number));
            call.architecture = I386;
            assert_eq!(run(&program, &call), KILL, "i386 {number}");
            let call = Call::new(0x4000_0000 | number, &benign(number));
            assert_eq!(run(&program, &call), KILL, "x32 {number}");
        }
        assert_eq!(run(&program, &Call::new(u32::MAX, &[])), KILL);
    }
}

/// High bits that the kernel drops from a 32-bit argument.
const HIGH: u64 = 0x7_0000_0000;

/// A call, its arguments, and the answer.
const CHECKED: &[(&str, &[u64], u32)] = &[
    ("clone", &[17], ALLOW),
    ("clone", &[0x003d_0f00], ALLOW),
    ("clone", &[0x0002_0011], EPERM),
    ("clone", &[0x0200_0000], EPERM),
    ("clone", &[0x0400_0000], EPERM),
    ("clone", &[0x0800_0000], EPERM),
    ("clone", &[0x1000_0000], EPERM),
    ("clone", &[0x2000_0000], EPERM),
    ("clone", &[0x4000_0000], EPERM),
    ("clone", &[HIGH | 0x1000_0000], EPERM),
    ("clone3", &[0, 0], ENOSYS),
    ("socket", &[1, 1], ALLOW),
    ("socket", &[2, 0x8_0802], ALLOW),
    ("socket", &[10, 1], ALLOW),
    ("socket", &[2, 3], EAFNOSUPPORT),
    ("socket", &[2, 0x8_0003], EAFNOSUPPORT),
    ("socket", &[2, HIGH | 0x3], EAFNOSUPPORT),
    ("socket", &[10, 3], EAFNOSUPPORT),
    ("socket", &[2, 10], EAFNOSUPPORT),
    ("socket", &[0, 1], EAFNOSUPPORT),
    ("socket", &[15, 2], EAFNOSUPPORT),
    ("socket", &[16, 2], EAFNOSUPPORT),
    ("socket", &[17, 2], EAFNOSUPPORT),
    ("socket", &[33, 2], EAFNOSUPPORT),
    ("socket", &[38, 5], EAFNOSUPPORT),
    ("socket", &[40, 1], EAFNOSUPPORT),
    ("socket", &[HIGH | 0x26, 5], EAFNOSUPPORT),
    ("socketpair", &[1, 1], ALLOW),
    ("socketpair", &[2, 1], EPERM),
    ("socketpair", &[30, 1], EPERM),
    ("ioctl", &[0, 0x5401], ALLOW),
    ("ioctl", &[0, 0x5412], EPERM),
    ("ioctl", &[0, HIGH | 0x5412], EPERM),
    ("ioctl", &[0, 0x541c], EPERM),
    ("ioctl", &[0, 0x541d], EPERM),
    ("ioctl", &[0, HIGH | 0x541c], EPERM),
    ("fcntl", &[0, 1], ALLOW),
    ("fcntl", &[0, 6], ALLOW),
    ("fcntl", &[0, 1024], EPERM),
    ("fcntl", &[0, 1026], EPERM),
    ("fcntl", &[0, HIGH | 0x400], EPERM),
    ("mknodat", &[0, 0, 0o010_644], ALLOW),
    ("mknodat", &[0, 0, 0o140_644], ALLOW),
    ("mknodat", &[0, 0, 0o020_666], EPERM),
    ("mknodat", &[0, 0, 0o060_666], EPERM),
    ("mknodat", &[0, 0, HIGH | 0o020_666], EPERM),
    ("personality", &[0xffff_ffff], ALLOW),
    ("personality", &[0], EPERM),
    ("personality", &[0x0004_0000], EPERM),
    ("prctl", &[15], ALLOW),
    ("prctl", &[1], ALLOW),
    ("prctl", &[8], EPERM),
    ("prctl", &[22], EPERM),
    ("prctl", &[35], EPERM),
    ("prctl", &[0x5961_6d61], EPERM),
    ("prctl", &[HIGH | 0x16], EPERM),
    ("sendto", &[0, 0, 0, 0], ALLOW),
    ("sendto", &[0, 0, 0, 0x4000], ALLOW),
    ("sendto", &[0, 0, 0, 1], EPERM),
    ("sendto", &[0, 0, 0, HIGH | 0x4001], EPERM),
    ("recvfrom", &[0, 0, 0, 1], EPERM),
    ("sendmmsg", &[0, 0, 0, 1], EPERM),
    ("recvmmsg", &[0, 0, 0, 1], EPERM),
    ("sendmsg", &[0, 0, 0], ALLOW),
    ("sendmsg", &[0, 0, 1], EPERM),
    ("recvmsg", &[0, 0, 1], EPERM),
    ("recvmsg", &[0, 0, 0x40], ALLOW),
];

#[test]
fn arguments_are_checked() {
    let program = compile(RULES);
    for (name, arguments, expected) in CHECKED {
        let answer = run(&program, &Call::new(number_of(name), arguments));
        assert_eq!(answer, *expected, "{name}{arguments:x?} answers {answer:#x}");
    }
}

#[test]
fn every_check_can_refuse() {
    let program = compile(RULES);
    let values = [0, 1, 2, 3, 17, 22, 1024, 0x5412, 0o020_000, 0x1000_0000, u64::from(u32::MAX)];
    for rule in RULES.iter().filter(|rule| matches!(rule.action, CallAction::When(_))) {
        for (name, number) in rule.calls {
            let refused = values.iter().any(|&value| {
                (0..4).any(|place| {
                    let mut arguments = benign(*number);
                    arguments.resize(4, 0);
                    arguments[place] = value;
                    run(&program, &Call::new(*number, &arguments)) != ALLOW
                })
            });
            assert!(refused, "{name} is checked and never refused");
        }
    }
}

#[test]
fn rules_name_each_call_once_and_say_why() {
    let mut names = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    for rule in RULES {
        assert!(rule.reason.len() > 10 && rule.reason.ends_with('.'), "{:?}", rule.reason);
        assert!(!rule.calls.is_empty(), "{:?}", rule.reason);
        for (name, number) in rule.calls {
            assert_eq!(names.insert(name, number), None, "{name} is named twice");
            assert_eq!(numbers.insert(number, name), None, "{number} is named twice");
        }
    }
}

#[test]
fn dangerous_calls_are_named_by_no_rule() {
    for number in [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_unshare,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_mount_setattr,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_kexec_load,
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        libc::SYS_pidfd_getfd,
        libc::SYS_setuid,
        libc::SYS_setgroups,
        libc::SYS_sethostname,
        libc::SYS_mknod,
        libc::SYS_syslog,
        libc::SYS_shmget,
        libc::SYS_sched_setscheduler,
        libc::SYS_clock_settime,
        libc::SYS_fanotify_init,
        libc::SYS_iopl,
    ] {
        assert_eq!(verdict(RULES, number as u32), CallVerdict::Denied, "number {number}");
    }
}

/// The kernel refuses longer ones, and each instruction costs every guest.
#[test]
fn program_is_short() {
    assert!(compile(RULES).len() < 1000, "{}", compile(RULES).len());
    assert!(compile(INIT_RULES).len() < 60, "{}", compile(INIT_RULES).len());
}

/// Regenerate with `UPDATE_EXPECT=1 cargo test -p silica-jail`, and say in the commit why.
#[test]
fn list_of_what_goes_through() {
    let names = |wanted: fn(CallAction) -> bool| {
        let rules = RULES.iter().filter(|rule| wanted(rule.action));
        let mut names: Vec<&str> =
            rules.flat_map(|rule| rule.calls).map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.chunks(8).map(|line| line.join(" ") + "\n").collect::<String>()
    };
    expect![[r"
        accept accept4 access alarm arch_prctl bind brk capget
        capset chdir chmod chown clock_getres clock_gettime clock_nanosleep close
        close_range connect creat dup dup2 dup3 epoll_create epoll_create1
        epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat
        exit exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod
        fchmodat fchmodat2 fchown fchownat fdatasync fgetxattr flistxattr flock
        fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex
        futex_waitv futimesat get_robust_list getcpu getcwd getdents getdents64 getegid
        geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid
        getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid
        getsockname getsockopt gettid gettimeofday getuid getxattr kill landlock_add_rule
        landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen listxattr
        llistxattr lremovexattr lseek lsetxattr lstat madvise membarrier memfd_create
        mkdir mkdirat mlock mlock2 mmap mprotect mremap msync
        munlock munmap nanosleep newfstatat open openat openat2 pause
        pidfd_open pidfd_send_signal pipe pipe2 poll ppoll pread64 preadv
        preadv2 prlimit64 pselect6 pwrite64 pwritev pwritev2 read readlink
        readlinkat readv removexattr rename renameat renameat2 restart_syscall rmdir
        rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
        rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getparam sched_getscheduler sched_rr_get_interval sched_yield
        seccomp select set_robust_list set_tid_address setitimer setns setpgid setpriority
        setresgid setresuid setrlimit setsid setsockopt setxattr shutdown sigaltstack
        signalfd signalfd4 stat statfs statx symlink symlinkat sync_file_range
        sysinfo tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime
        timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname
        unlink unlinkat utime utimensat utimes vfork wait4 waitid
        write writev
    "]].assert_eq(&names(|action| action == CallAction::Allow));
    expect![[r"
        clone fcntl ioctl mknodat personality prctl recvfrom recvmmsg
        recvmsg sendmmsg sendmsg sendto socket socketpair
    "]]
    .assert_eq(&names(|action| matches!(action, CallAction::When(_))));
    expect![[r"
        clone3 copy_file_range io_uring_enter io_uring_register io_uring_setup memfd_secret pkey_alloc pkey_free
        pkey_mprotect sendfile splice tee userfaultfd vmsplice
    "]].assert_eq(&names(|action| action == CallAction::NoSuchCall));
}
