"""Counts how many lives all processors manage in a second when they do nothing else.

Usage: python floor.py namespaces SECONDS PROGRAM
       python floor.py place SECONDS PROGRAM SCRATCH
       python floor.py interpreter SECONDS GUEST MODULE,MODULE

`namespaces`: a process is forked into new namespaces and ends at once. `place`: likewise, in control groups and with the
mounts of a sandbox, but without an interpreter; needs root. PROGRAM, which is floor.c compiled, does and counts both.
Network namespaces are not among them, since Silica reuses unused ones. `interpreter`: a process is forked from an
interpreter that has these modules loaded, runs `print(1)` and ends; no jail, no server. Prints the number of such lives
in a second. See src/measures/floor.rs.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable

# Mounts, host name, SysV objects, users, processes.
NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000

libc = ctypes.PyDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    """The result of a call, or its error."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def bare_fork() -> int:
    """Forks without running the hooks of Python, nor those of libc where it has `_Fork`."""
    return checked(getattr(libc, "_Fork", libc.fork)(), "fork")


def run_in(process: int, act: Callable[[], None]) -> None:
    """In a new process, which is 0 to itself, acts and ends; otherwise returns."""
    if process != 0:
        return
    status = 1
    try:
        act()
        status = 0
    finally:
        os._exit(status)


def bury(process: int) -> None:
    """Waits for the end of a process."""
    if os.waitpid(process, 0)[1] != 0:
        raise RuntimeError("a life ended badly")


def write(path: str, text: str) -> None:
    """Writes by one call."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


class Groups:
    """Control groups with limits on memory, processors and processes, in whatever version there is."""

    V1 = {
        "memory": ("memory.limit_in_bytes", "536870912"),
        "pids": ("pids.max", "129"),
        "cpu": ("cpu.cfs_quota_us", "100000"),
        "cpuacct": None,
    }
    V2 = (("memory.max", "536870912"), ("pids.max", "129"), ("cpu.max", "100000 100000"))

    def __init__(self) -> None:
        name = f"silica-bench-floor-{os.getpid()}"
        places: dict[str, list] = {}
        unified = None
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            for line in mounts:
                before, after = line.split(" - ")
                point, (kind, _, options) = before.split()[4], after.split(maxsplit=2)
                if kind == "cgroup2":
                    unified = point
                elif kind == "cgroup":
                    for controller in set(options.strip().split(",")) & set(self.V1):
                        places.setdefault(f"{point}/{name}", []).append(self.V1[controller])
        self.places = places
        if places:
            for place in places:
                os.mkdir(place)
        elif unified:
            self.places[f"{unified}/{name}"] = list(self.V2)
            os.mkdir(f"{unified}/{name}")
            for parent in (unified, f"{unified}/{name}"):
                write(f"{parent}/cgroup.subtree_control", "+memory +pids +cpu")
        else:
            raise RuntimeError("no control groups")

    def arguments(self) -> list[str]:
        """As PROGRAM wants them: directory, file and value, again and again."""
        words = []
        for place, limits in self.places.items():
            for limit in limits:
                words += [place, *(limit or ("-", "-"))]
                place = "."  # The same group once more.
        return words

    def remove(self) -> None:
        """Removes them, which are empty again."""
        for place in self.places:
            os.rmdir(place)


DIRECTORIES = ("workspace", "home/user", "tmp", "dev", "proc", "usr")


def lay_out(scratch: str) -> None:
    """Makes the directories that are mounted and mounted upon."""
    for name in DIRECTORIES:
        os.makedirs(f"{scratch}/lower/{name}", exist_ok=True)
    for name in ("empty", "root", "writable"):
        os.makedirs(f"{scratch}/{name}", exist_ok=True)


def count_empty(seconds: str, program: str, *more: str) -> float:
    """Returns how many empty sandboxes PROGRAM creates and ends in a second."""
    command = [program, seconds, str(NAMESPACES), *more]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def interpreter(guest: str, modules: str) -> Callable[[], None]:
    """One life of a warm interpreter, made as a zygote makes itself."""
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
    reseed.prepare()
    zygote.settle()
    gate.gather_libraries()

    def live() -> None:
        gc.enable()
        reseed.reseed()
        shell.run("print(1)")
        shell.finish()
        streams.flush_streams()

    def life() -> None:
        process = bare_fork()
        run_in(process, live)
        bury(process)

    return life


def count_lives(life: Callable[[], None], seconds: float) -> int:
    """Lives on all processors, one after the other on each, until the time is over."""
    reader, writer = os.pipe()
    workers = os.cpu_count() or 1
    for _ in range(workers):
        if os.fork() == 0:
            count, end = 0, time.monotonic() + seconds
            while time.monotonic() < end:
                life()
                count += 1
            os.write(writer, b"%d\n" % count)
            os._exit(0)
    os.close(writer)
    counts = [int(line) for line in os.fdopen(reader)]
    for _ in range(workers):
        os.wait()
    if len(counts) != workers:
        raise RuntimeError("a worker ended early")
    return sum(counts)


def count_places(seconds: str, program: str, scratch: str) -> float:
    """Returns how many empty sandboxes with groups and mounts are created and ended in a second."""
    lay_out(scratch)
    groups = Groups()
    try:
        return count_empty(seconds, program, scratch, *groups.arguments())
    finally:
        groups.remove()


def count_interpreters(seconds: str, guest: str, modules: str) -> float:
    """Returns how many forks of a warm interpreter print and end in a second."""
    return count_lives(interpreter(guest, modules), float(seconds)) / float(seconds)


def main() -> None:
    what, *rest = sys.argv[1:]
    answer = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    count = {"namespaces": count_empty, "place": count_places, "interpreter": count_interpreters}[what]
    os.write(answer, b"%f\n" % count(*rest))


if __name__ == "__main__":
    main()
