"""Tells what a process can see and do where it runs: the same program in our jail, in others', and in none.

Every attempt is made in a child of its own, so that one that succeeds changes nothing for the next.
"""

import json
import os
import signal
import socket
import sys

import attack

CHILD_SECONDS = 3

CALLS = {
    "mount a tmpfs": ("mount", b"none", b"/tmp", b"tmpfs", 0, 0),
    "unshare user": ("unshare", 0x10000000),
    "unshare mount": ("unshare", 0x20000),
    "clone with a new user namespace": ("clone", 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": ("clone3", 0, 0),
    "setns": ("setns", -1, 0),
    "chroot": ("chroot", b"/tmp"),
    "ptrace oneself": ("ptrace", 0, 0, 0, 0),
    "process_vm_readv": ("process_vm_readv", 1, 0, 0, 0, 0, 0),
    "keyctl": ("keyctl", 0, -3, 0, 0, 0),
    "add_key": ("add_key", b"user", b"a", b"b", 1, -3),
    "bpf": ("bpf", 0, 0, 0),
    "perf_event_open": ("perf_event_open", 0, 0, -1, -1, 0),
    "userfaultfd": ("userfaultfd", 0),
    "io_uring_setup": ("io_uring_setup", 8, b"\0" * 120),
    "splice": ("splice", 0, 0, 0, 0, 0, 0),
    "sendfile": ("sendfile", 1, 0, 0, 0),
    "seccomp": ("seccomp", 2, 0, b"\0" * 4),
    "personality": ("personality", 0x0040000),
    "open_by_handle_at": ("open_by_handle_at", -100, b"\0" * 8, 0),
    "fanotify_init": ("fanotify_init", 0, 0),
    "inotify_init": ("inotify_init",),
    "mbind": ("mbind", 0, 0, 0, 0, 0, 0),
    "sched_setaffinity": ("sched_setaffinity", 0, 8, b"\xff" * 8),
    "shmget": ("shmget", 4242, 4096, 0o600),
    "mq_open": ("mq_open", b"inspector", 0, 0, 0),
    "mincore": ("mincore", 0, 0, 0),
    "syslog": ("syslog", 10, 0, 0),
    "memfd_create": ("memfd_create", b"m", 0),
    "statmount": ("statmount", 0, 0, 0, 0),
    "landlock_create_ruleset": ("landlock_create_ruleset", 0, 0, 1),
}
SOCKETS = {
    "local": (1, 1, 0), "IPv4": (2, 1, 0), "IPv6": (10, 1, 0), "raw": (2, 3, 1), "ping": (2, 2, 1), "netlink": (16, 3, 0), "packet": (17, 3, 0),
    "AF_ALG": (38, 5, 0), "vsock": (40, 1, 0), "SCTP": (2, 1, 132), "MPTCP": (2, 1, 262),
}  # fmt: skip
PATHS = ["/sys", "/proc/sys", "/proc/kallsyms", "/proc/meminfo", "/proc/cpuinfo", "/proc/keys", "/proc/1/environ", "/proc/1/maps", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/etc/shadow", "/etc/machine-id", "/root", "/run"]


def apart(action):
    """What an action says in a child of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(CHILD_SECONDS)
        os.write(writer, str(action()).encode()[:100])
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 100).decode()
    os.close(reader)
    while True:
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            break
        os.kill(child, signal.SIGKILL)
    return said or f"killed by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else said


def called(name, arguments):
    outcome = attack.raw(attack.NUMBERS[name], *arguments)
    return outcome if isinstance(outcome, str) else "works"


def opened(path):
    return attack.result_of(lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))).replace("ok", "can be opened")


def writable(path):
    def write():
        with open(os.path.join(path, "inspector-probe"), "x"):
            pass
        os.unlink(os.path.join(path, "inspector-probe"))

    return attack.result_of(write).replace("ok", "writable")


def inspect():
    """Everything, as lines of a flat table."""
    status = attack.status()
    seen = {
        "processes seen": "own" if sum(name.isdigit() for name in os.listdir("/proc")) < 6 else "the host's",
        "interfaces": ",".join(line.split(":")[0].strip() for line in open("/proc/self/net/dev") if ":" in line),
        "capabilities": "none" if int(status["CapEff"], 16) == 0 else status["CapEff"],
        "bounding set": "empty" if int(status["CapBnd"], 16) == 0 else "not empty",
        "no_new_privs": status["NoNewPrivs"],
        "seccomp": {"0": "none", "2": "filter"}.get(status["Seccomp"], status["Seccomp"]),
        "ids mapped": "one" if open("/proc/self/uid_map").read().split()[2] == "1" else "many",
        "devices": len(os.listdir("/dev")),
        "host name": "made up" if socket.gethostname() == "sandbox" else "the host's",
    }
    seen |= {f"call: {label}": apart(lambda n=name, a=arguments: called(n, a)) for label, (name, *arguments) in CALLS.items()}
    seen |= {f"socket: {label}": apart(lambda a=arguments: called("socket", a)) for label, arguments in SOCKETS.items()}
    seen |= {f"open: {path}": apart(lambda p=path: opened(p)) for path in PATHS}
    seen |= {f"write: {path}": apart(lambda p=path: writable(p)) for path in ("/", "/usr", "/etc", "/tmp", "/dev/shm", "/home")}
    return seen


print(json.dumps(inspect()), flush=True)
sys.stdout.flush()
