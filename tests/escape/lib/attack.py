"""The library of attacks inside a sandbox: raw system calls, and functions that report attempts and results.

The harness puts this text before the attack, as the module `attack`. It is hostile code like the rest: nothing it says is
believed alone, and whatever it does it could do without it.
"""

import ctypes
import errno
import json
import os
import select
import signal
import struct
import sys
import time

HOST = {}
"""What the attacker receives: paths, ports and names of the host's canaries, never their contents."""

MARK = b"\x1e"

libc = ctypes.CDLL(None, use_errno=True)

NUMBERS = {
    "read": 0, "write": 1, "open": 2, "mmap": 9, "ioctl": 16, "mincore": 27, "shmget": 29, "shmat": 30, "sendfile": 40,
    "socket": 41, "clone": 56, "fork": 57, "vfork": 58, "semget": 64, "msgget": 68, "fcntl": 72, "chown": 92,
    "ptrace": 101, "getuid": 102, "syslog": 103, "setuid": 105, "setgid": 106, "setreuid": 113, "setregid": 114,
    "setgroups": 116, "setresuid": 117, "setresgid": 119, "setfsuid": 122, "capset": 126, "mknod": 133, "uselib": 134,
    "personality": 135, "ustat": 136, "sched_setparam": 142, "sched_setscheduler": 144, "vhangup": 153,
    "modify_ldt": 154, "pivot_root": 155, "_sysctl": 156, "prctl": 157, "adjtimex": 159, "chroot": 161, "sync": 162,
    "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169,
    "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176,
    "quotactl": 179, "readahead": 187, "setxattr": 188, "sched_setaffinity": 203, "io_setup": 206,
    "lookup_dcookie": 212, "remap_file_pages": 216, "clock_settime": 227, "mbind": 237, "set_mempolicy": 238,
    "get_mempolicy": 239, "mq_open": 240, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
    "ioprio_set": 251, "inotify_init": 253, "migrate_pages": 256, "mknodat": 259, "unshare": 272, "splice": 275,
    "tee": 276, "vmsplice": 278, "move_pages": 279, "inotify_init1": 294, "preadv": 295, "perf_event_open": 298,
    "fanotify_init": 300, "prlimit64": 302, "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305,
    "syncfs": 306, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313,
    "sched_setattr": 314, "seccomp": 317, "memfd_create": 319, "kexec_file_load": 320, "bpf": 321, "execveat": 322,
    "userfaultfd": 323, "copy_file_range": 326, "preadv2": 327, "pkey_mprotect": 329, "pidfd_send_signal": 424,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435, "openat2": 437,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443,
    "landlock_create_ruleset": 444, "memfd_secret": 447, "process_mrelease": 448, "cachestat": 451,
    "fchmodat2": 452, "map_shadow_stack": 453, "statmount": 457, "listmount": 458,
}  # fmt: skip


def say(name, value):
    """Leaves a word of evidence for the harness, past every buffer."""
    line = MARK + json.dumps([name, value]).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def result_of(action):
    """`ok`, or the name of the error that an action ended in."""
    try:
        action()
        return "ok"
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    except Exception as error:
        return type(error).__name__


def attempt(name, action):
    """Calls a function, reports its result or error, and returns it."""
    result = result_of(action)
    say(name, result)
    return result


def raw(number, *arguments):
    """A system call as it is: what it returned, or the name of its error."""
    ctypes.set_errno(0)
    values = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    returned = libc.syscall(ctypes.c_long(number), *values)
    if returned != -1:
        return returned
    return errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))


def call(name, *arguments):
    """Makes a system call by name, reports its result, and returns it."""
    returned = raw(NUMBERS[name], *arguments)
    say(name, returned)
    return returned


def calls(table):
    """Tries many system calls: `{label: (name, arguments…)}`; one word of evidence for all."""
    said = {label: raw(NUMBERS[name], *arguments) for label, (name, *arguments) in table.items()}
    say("calls", said)
    return said


def in_child(action):
    """Does something in a forked child; how it ended: an exit code, or minus a signal."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = action() or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def read_some(path, most=4096):
    """What can be read at a path, without hanging on it, or the name of the error."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return errno.errorcode.get(error.errno, "?")
    try:
        return os.read(descriptor, most).decode("latin-1")
    except OSError as error:
        return errno.errorcode.get(error.errno, "?")
    finally:
        os.close(descriptor)


def status(pid="self"):
    """The fields of /proc/…/status."""
    with open(f"/proc/{pid}/status") as lines:
        return dict(line.rstrip("\n").split(":\t", 1) for line in lines if ":\t" in line)


def machine_code(code):
    """A function made of machine code, in memory that can be written and run."""
    import mmap

    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    function = ctypes.CFUNCTYPE(ctypes.c_long)(address)
    function.memory = memory
    return function


def frame(head, body=b""):
    """One frame of the protocol between host and guest."""
    head = json.dumps(head).encode()
    return struct.pack("<II", len(head), len(body)) + head + body
