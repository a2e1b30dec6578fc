"""Tells, from inside a sandbox, what can be seen and done there."""

import ctypes
import errno
import fcntl
import json
import os
import socket

libc = ctypes.CDLL(None, use_errno=True)


def outcome(number, *arguments):
    """The name of the error of a system call, or `ok`."""
    ctypes.set_errno(0)
    values = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *values)
    return "ok" if result != -1 else errno.errorcode.get(ctypes.get_errno(), "?")


def attempt(action):
    try:
        action()
        return "ok"
    except OSError as error:
        return errno.errorcode.get(error.errno, "?")


NEWUSER, NEWNS, SIGCHLD = 0x10000000, 0x20000, 17
CALLS = {
    "mount": (165, b"none", b"/tmp", b"tmpfs", 0, 0),
    "umount2": (166, b"/tmp", 2),
    "pivot_root": (155, b"/tmp", b"/tmp"),
    "chroot": (161, b"/tmp"),
    "open_tree": (428, -100, b"/", 1),
    "move_mount": (429, 0, b"", 0, b"", 4),
    "fsopen": (430, b"tmpfs", 0),
    "mount_setattr": (442, -100, b"/", 0, 0, 0),
    "unshare user": (272, NEWUSER),
    "unshare mount": (272, NEWNS),
    "clone user": (56, NEWUSER | SIGCHLD, 0, 0, 0, 0),
    "clone mount": (56, NEWNS | SIGCHLD, 0, 0, 0, 0),
    "clone3": (435, 0, 0),
    "setns": (308, 0, 0),
    "ptrace": (101, 0, 0, 0, 0),
    "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
    "pidfd_getfd": (438, 0, 0, 0),
    "kcmp": (312, 1, 1, 0, 0, 0),
    "bpf": (321, 0, 0, 0),
    "keyctl": (250, 0, -3, 0, 0, 0),
    "add_key": (248, b"user", b"a", b"b", 1, -3),
    "request_key": (249, b"user", b"a", 0, 0),
    "io_uring_setup": (425, 8, 0),
    "userfaultfd": (323, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "seccomp": (317, 0, 0, 0),
    "setresuid": (117, 0, 0, 0),
    "setuid": (105, 0),
    "setgroups": (116, 0, 0),
    "capset": (126, 0, 0),
    "personality": (135, 0x40000),
    "open_by_handle_at": (304, 0, 0, 0),
    "name_to_handle_at": (303, -100, b"/", 0, 0, 0),
    "fanotify_init": (300, 0, 0),
    "init_module": (175, 0, 0, 0),
    "finit_module": (313, 0, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "reboot": (169, 0, 0, 0, 0),
    "swapon": (167, 0, 0),
    "acct": (163, 0),
    "syslog": (103, 3, 0, 0),
    "iopl": (172, 3),
    "ioperm": (173, 0, 1, 1),
    "modify_ldt": (154, 0, 0, 0),
    "settimeofday": (164, 0, 0),
    "clock_settime": (227, 0, 0),
    "sethostname": (170, b"x", 1),
    "quotactl": (179, 0, 0, 0, 0),
    "mbind": (237, 0, 0, 0, 0, 0, 0),
    "sched_setaffinity": (203, 0, 0, 0),
    "sched_setscheduler": (144, 0, 0, 0),
    "shmget": (29, 0, 4096, 0o1600),
    "msgget": (68, 0, 0o1600),
    "mq_open": (240, b"a", 0o100, 0o600, 0),
    "mknod": (133, b"/tmp/null", 0o20666, 0x103),
    "mknodat device": (259, -100, b"/tmp/null", 0o20666, 0x103),
    "splice": (275, 0, 0, 0, 0, 0, 0),
    "memfd_secret": (447, 0),
    "prctl PR_SET_MM": (157, 35, 0, 0, 0, 0),
    "prctl PR_SET_SECCOMP": (157, 22, 1, 0, 0, 0),
    "landlock_create_ruleset": (444, 0, 0, 1),
    "statmount": (457, 0, 0, 0, 0),
    "listmount": (458, 0, 0, 0, 0),
    "newer than any": (599,),
}
SOCKETS = {
    "AF_UNIX": (1, 1),
    "AF_INET stream": (2, 1),
    "AF_INET raw": (2, 3),
    "AF_INET raw with flags": (2, 3 | 0o2000000),
    "AF_INET packet": (2, 10),
    "AF_INET6 raw": (10, 3),
    "AF_NETLINK": (16, 3),
    "AF_PACKET": (17, 3),
    "AF_ALG": (38, 5),
    "AF_VSOCK": (40, 1),
    "AF_KEY": (15, 3),
    "AF_BLUETOOTH": (31, 3),
    "AF_RXRPC": (33, 2),
    "AF_TIPC": (30, 5),
}
HIDDEN = [
    "/sys", "/boot", "/run/docker.sock", "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/kvm", "/dev/fuse",
    "/proc/sys", "/proc/kallsyms", "/proc/kcore", "/proc/sysrq-trigger", "/proc/keys", "/proc/modules",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/mounts", "/proc/sched_debug", "/proc/timer_list", "/proc/interrupts",
    "/proc/1/root", "/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/1/cwd",
]  # fmt: skip
PLACES = ["/", "/etc", "/usr", "/opt", "/opt/silica", "/data", "/data/input", "/dev", "/home", "/var", "/root", "/workspace", "/home/user", "/tmp", "/dev/shm"]  # fmt: skip


def writable(place):
    def write():
        path = os.path.join(place, "probe")
        with open(path, "w"):
            pass
        os.unlink(path)

    return attempt(write)


def mounts():
    """Mount points on which anything can be written, by the kernel's word."""
    found = []
    for line in open("/proc/self/mountinfo"):
        fields, rest = line.split(" - ")
        point, options = fields.split()[4:6]
        if "rw" in options.split(",") and "rw" in rest.split()[2].split(","):
            found.append(point)
    return sorted(found)


def unsafe_mounts():
    """Mount points without nosuid, and without nodev that are not the handful of devices."""
    found = []
    for line in open("/proc/self/mountinfo"):
        point, options = line.split()[4:6]
        if "nosuid" not in options.split(","):
            found.append(point + " suid")
        if "nodev" not in options.split(",") and not point.startswith("/dev/"):
            found.append(point + " dev")
    return sorted(found)


def inject():
    """TIOCSTI, plain and with high bits that the kernel ignores."""
    _, terminal = os.openpty()
    plain = attempt(lambda: fcntl.ioctl(terminal, 0x5412, b"x"))
    letter = ctypes.c_char_p(b"x")
    return [plain, outcome(16, terminal, 0x1_0000_5412, letter)]


def out_of_band():
    one, _ = socket.socketpair()
    return attempt(lambda: one.send(b"x", socket.MSG_OOB))


status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
namespaces = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
seen = {
    "uid": os.getresuid() + os.getresgid(),
    "groups": os.getgroups(),
    "capabilities": [status[key] for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "NoNewPrivs": status["NoNewPrivs"],
    "Seccomp": status["Seccomp"],
    "hostname": socket.gethostname(),
    "cwd": os.getcwd(),
    "umask": oct(os.umask(0o022)),
    "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:4],
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "interfaces": [line.split(":")[0].strip() for line in open("/proc/self/net/dev") if ":" in line],
    "cgroup": sorted({line.strip().split(":", 2)[2] for line in open("/proc/self/cgroup")}),
    "uid_map": open("/proc/self/uid_map").read().split()[::2],
    "variables": sorted(os.environ),
    "root": sorted(os.listdir("/")),
    "devices": sorted(os.listdir("/dev")),
    "mounts that can be written": mounts(),
    "mounts that are unsafe": unsafe_mounts(),
    "writable": {place: writable(place) for place in PLACES},
    "hidden": {path: attempt(lambda p=path: os.close(os.open(p, os.O_RDONLY))) for path in HIDDEN},
    "sockets": {name: outcome(41, *arguments, 0) for name, arguments in SOCKETS.items()},
    "TIOCSTI": inject(),
    "MSG_OOB": out_of_band(),
    "lease": attempt(lambda: fcntl.fcntl(os.open("/tmp/lease", os.O_CREAT), 1024, 1)),
    "calls": {name: outcome(*arguments) for name, arguments in CALLS.items()},
}
print(json.dumps({"seen": seen, "namespaces": {n: os.readlink("/proc/self/ns/" + n) for n in namespaces}}))
