"""Counts how many lives all processors manage in a second when they do nothing else, and what the kernel takes for each.

Usage: python floor.py namespaces SECONDS
       python floor.py interpreter SECONDS GUEST MODULE,MODULE

`namespaces`: a process is forked into namespaces of its own and ends at once. `interpreter`: one is forked from an
interpreter that has these modules loaded, runs `print(1)` and ends; no jail, no server. Prints the lives a second and
the seconds that the kernel worked for one of them. See src/measures/floor.rs.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable

CLONE = 56  # The number of the system call on x86-64.
# Mounts, host name, SysV objects, users, processes, network.
NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000

libc = ctypes.PyDLL(None, use_errno=True)


def in_namespaces() -> int:
    """Forks into new namespaces; the process, or 0 in it."""
    return libc.syscall(CLONE, ctypes.c_ulong(NAMESPACES | signal.SIGCHLD), 0, 0, 0, 0)


def empty() -> tuple[Callable[[], int], Callable[[], None]]:
    """How to fork, and what the new process does."""
    return in_namespaces, lambda: None


def interpreter(guest: str, modules: str) -> tuple[Callable[[], int], Callable[[], None]]:
    """The same for a warm interpreter, made as a zygote makes itself."""
    sys.path.append(guest)
    import gc

    gc.disable()
    from silica_guest import gateway, reseed, zygote
    from silica_guest import interpreter as streams

    library = os.path.join(guest, "silica_guest", "gate.so")
    gateway.keep_objects_together(library)
    streams.configure_streams()
    shell = zygote.preload([name for name in modules.split(",") if name])
    zygote.warm(shell)
    gate = gateway.Gate(-1, library)
    zygote.settle()
    gate.gather_libraries()

    def live() -> None:
        gc.enable()
        reseed.reseed()
        shell.run("print(1)")
        shell.finish()
        streams.flush_streams()

    return getattr(libc, "_Fork", libc.fork), live


def lives(fork: Callable[[], int], live: Callable[[], None], seconds: float) -> int:
    """Lives one after the other until the time is over; how many."""
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        process = fork()
        if process == 0:
            status = 1
            try:
                live()
                status = 0
            finally:
                os._exit(status)
        if process < 0:
            raise OSError(ctypes.get_errno(), "cannot fork")
        if os.waitpid(process, 0)[1] != 0:
            raise RuntimeError("a life ended badly")
        count += 1
    return count


def in_kernel() -> float:
    """How long the kernel has worked for this process and its children that have ended."""
    return sum(resource.getrusage(who).ru_stime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main() -> None:
    what, seconds, *rest = sys.argv[1:]
    answer = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    fork, live = {"namespaces": empty, "interpreter": interpreter}[what](*rest)
    reader, writer = os.pipe()
    workers = os.cpu_count() or 1
    for _ in range(workers):
        if os.fork() == 0:
            before = in_kernel()
            count = lives(fork, live, float(seconds))
            os.write(writer, b"%d %f\n" % (count, in_kernel() - before))
            os._exit(0)
    os.close(writer)
    told = [line.split() for line in os.fdopen(reader)]
    if len(told) != workers:
        raise RuntimeError("a worker ended early")
    count = sum(int(count) for count, _ in told)
    kernel = sum(float(seconds) for _, seconds in told)
    os.write(answer, b"%f %f\n" % (count / float(seconds), kernel / count))


if __name__ == "__main__":
    main()
