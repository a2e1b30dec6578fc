"""Counts how many lives all processors manage in a second when they do nothing else.

Usage: python floor.py namespaces SECONDS
       python floor.py place SECONDS SCRATCH
       python floor.py interpreter SECONDS GUEST MODULE,MODULE

`namespaces`: a process is forked into namespaces of its own and ends at once. `place`: the same in control groups and
with mounts of its own, as a sandbox has them, and nobody in it; needs root. `interpreter`: a process is forked from an
interpreter that has these modules loaded, runs `print(1)` and ends; no jail, no server. Prints the lives a second. See
src/measures/floor.rs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable

CLONE, PIVOT_ROOT = 56, 155  # The numbers of system calls on x86-64.
# Mounts, host name, SysV objects, users, processes, network.
NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC, BIND, PRIVATE = 1, 2, 4, 8, 4096, 1 << 18 | 1 << 14
DETACH = 2

libc = ctypes.PyDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    """The result of a call, or its error."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def in_namespaces() -> int:
    """Forks into new namespaces; the process, or 0 in it."""
    return checked(libc.syscall(CLONE, ctypes.c_ulong(NAMESPACES | signal.SIGCHLD), 0, 0, 0, 0), "clone")


def bare_fork() -> int:
    """Forks without the hooks of anybody, where the C library has that."""
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


def namespaces() -> Callable[[], None]:
    """One life of an empty process in namespaces of its own."""

    def life() -> None:
        process = in_namespaces()
        run_in(process, lambda: None)
        bury(process)

    return life


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

    def make(self, name: str) -> None:
        """Makes one in every hierarchy, and limits it."""
        for place, limits in self.places.items():
            os.mkdir(f"{place}/{name}")
            for limit in filter(None, limits):
                write(f"{place}/{name}/{limit[0]}", limit[1])

    def take_in(self, name: str, process: int) -> None:
        """Moves a process in."""
        for place in self.places:
            write(f"{place}/{name}/cgroup.procs", str(process))

    def remove(self, name: str = "") -> None:
        """Removes one, or with no name that of all."""
        for place in self.places:
            os.rmdir(f"{place}/{name}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Mounts something."""
    encoded = kind.encode() if kind else None
    checked(libc.mount(source.encode(), target.encode(), encoded, flags, options.encode() or None), f"mount {target}")


WRITABLE = {"workspace": "workspace", "home": "home/user", "tmp": "tmp"}


def lay_out(scratch: str) -> None:
    """Makes the directories that are mounted and mounted upon."""
    for name in (*WRITABLE.values(), "dev", "proc", "usr"):
        os.makedirs(f"{scratch}/lower/{name}", exist_ok=True)
    for name in ("empty", "root", "writable"):
        os.makedirs(f"{scratch}/{name}", exist_ok=True)


def build(scratch: str) -> None:
    """Mounts what a sandbox has at least: root, system, a bounded place to write, terminals, /proc."""
    root, closed = f"{scratch}/root", READ_ONLY | NO_SUID | NO_DEVICES
    mount("none", "/", None, PRIVATE)
    mount("overlay", root, "overlay", closed, f"lowerdir={scratch}/lower:{scratch}/empty,userxattr")
    mount("overlay", f"{root}/usr", "overlay", closed, f"lowerdir=/usr:{scratch}/empty,userxattr")
    mount("tmpfs", f"{scratch}/writable", "tmpfs", NO_SUID | NO_DEVICES, "size=100m,nr_inodes=25600,mode=755")
    for name, target in WRITABLE.items():
        os.mkdir(f"{scratch}/writable/{name}")
        mount(f"{scratch}/writable/{name}", f"{root}/{target}", None, BIND)
    mount("devpts", f"{root}/dev", "devpts", NO_SUID | NO_EXEC, "newinstance,ptmxmode=0666,mode=0600")
    mount("proc", f"{root}/proc", "proc", NO_SUID | NO_DEVICES | NO_EXEC, "subset=pid")
    os.chdir(root)
    checked(libc.syscall(PIVOT_ROOT, b".", b"."), "pivot_root")
    checked(libc.umount2(b".", DETACH), "umount")
    os.chdir("/")


def place(scratch: str, groups: Groups) -> Callable[[], None]:
    """One life of a sandbox with nobody in it."""
    lay_out(scratch)
    count = 0

    def life() -> None:
        nonlocal count
        count += 1
        name = f"{os.getpid()}.{count}"
        groups.make(name)
        reader, writer = os.pipe()
        process = in_namespaces()

        def live() -> None:
            os.close(writer)
            os.read(reader, 1)
            build(scratch)

        run_in(process, live)
        os.close(reader)
        write(f"/proc/{process}/uid_map", "0 0 1")
        write(f"/proc/{process}/gid_map", "0 0 1")
        groups.take_in(name, process)
        os.write(writer, b"g")
        os.close(writer)
        bury(process)
        groups.remove(name)

    return life


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
    told = [int(line) for line in os.fdopen(reader)]
    for _ in range(workers):
        os.wait()
    if len(told) != workers:
        raise RuntimeError("a worker ended early")
    return sum(told)


def main() -> None:
    what, seconds, *rest = sys.argv[1:]
    answer = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    groups = Groups() if what == "place" else None
    try:
        life = {
            "namespaces": namespaces,
            "place": lambda scratch: place(scratch, groups),
            "interpreter": interpreter,
        }[what](*rest)
        count = count_lives(life, float(seconds))
    finally:
        if groups:
            groups.remove()
    os.write(answer, b"%f\n" % (count / float(seconds)))


if __name__ == "__main__":
    main()
