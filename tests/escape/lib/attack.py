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
import socket
import ssl
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


# The network, where there is one: the proxy, names, and TLS with lies in it.

PROXY = ("127.0.0.1", 3128)
NETWORK_PATIENCE = 10


def error_name(error):
    """The name of an error of a connection, with or without TLS."""
    known = None if isinstance(error, ssl.SSLError) else errno.errorcode.get(error.errno)
    return known or type(error).__name__


def exchange(stream, data=b"", most=1 << 20):
    """Sends bytes and returns what comes back until the end, or the name of the error after it."""
    received = b""
    try:
        stream.sendall(data)
        while len(received) < most and (part := stream.recv(65536)):
            received += part
    except OSError as error:
        received += b" " + error_name(error).encode()
    stream.close()
    return received.decode("latin-1")


def reach(address, port, data=b"", patience=None):
    """Connects without the proxy, sends, and returns what comes back or the name of the error."""
    try:
        stream = socket.create_connection((address, port), patience or NETWORK_PATIENCE)
    except socket.gaierror:
        return "no such name"
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    return exchange(stream, data)


def ask_proxy(data, patience=None):
    """Sends bytes to the proxy and returns what comes back."""
    return reach(*PROXY, data, patience)


def status_of(answer):
    """The status in an answer, or the answer itself if it has none."""
    return answer[9:12] if answer.startswith(("HTTP/1.0 ", "HTTP/1.1 ")) else answer[:40]


def tunnel(target):
    """A tunnel through the proxy, or its answer if that was no 200."""
    stream = socket.create_connection(PROXY, NETWORK_PATIENCE)
    stream.sendall(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, target))
    head = b""
    while not head.endswith(b"\r\n\r\n") and (byte := stream.recv(1)):
        head += byte
    return stream if head.startswith(b"HTTP/1.1 200") else status_of(head.decode("latin-1"))


def secure(stream, name, protocols=("http/1.1",), check=True):
    """TLS with a name in its hello, checked or not."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(list(protocols))
    if not check:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(stream, server_hostname=name)


def ask_tls(name, port, data, **options):
    """Sends bytes inside TLS to a name, without the proxy, and returns what comes back or the error."""
    try:
        stream = secure(socket.create_connection((name, port), NETWORK_PATIENCE), name, **options)
    except OSError as error:
        return error_name(error)
    return exchange(stream, data)


def request(method, path, host, *fields, body=b""):
    """The bytes of a request that asks for an end of the connection."""
    length = [f"Content-Length: {len(body)}"] if body else []
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *fields, *length, "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def question(name, kind=1, count=1):
    """A DNS packet; the name may be bytes as they are."""
    labels = name if isinstance(name, bytes) else b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"
    return b"\x12\x34\1\0" + struct.pack("!HHHH", count, 0, 0, 0) + labels + struct.pack("!HH", kind, 1)


def ask_dns(packet, patience=3):
    """The code and the number of answers of a DNS packet, or nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(patience)
        asking.sendto(packet, ("127.0.0.1", 53))
        try:
            answer = asking.recv(4096)
        except OSError:
            return None
    return [answer[3] & 15, int.from_bytes(answer[6:8], "big")]


def h2_frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def h2_field(name, value):
    """A header field of HTTP/2, written out."""
    return b"\x10" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def h2_request(stream, authority, path, *fields):
    """The head of a GET as frames of HTTP/2."""
    head = b"\x82\x87" + h2_field(":path", path) + h2_field(":authority", authority)
    return h2_frame(1, 5, stream, head + b"".join(h2_field(*field) for field in fields))


H2_START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
