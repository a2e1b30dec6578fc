"""RS-04: Hide memory where it is not counted.

Claim: Files in memory, pipes, sockets, page tables and kernel objects are all charged or bounded.
Technique: Fills /tmp and /dev/shm, memfd, pipes with large buffers, socket buffers, epoll sets and timers, and maps sparsely.
Source: -
Tiers: jail bounded; without groups by the disk's size and the number of descriptors
"""

LIMITS = {"memory_bytes": 128 << 20, "disk_bytes": 24 << 20, "processes": 16, "open_files": 512}
ENDS = ("ok", "out_of_memory", "raised", "crashed")
TIMEOUT = 40
DRIVEN = True


def inside(way):
    import fcntl
    import os
    import select
    import socket

    attack.say(f"way {way}", True)
    done, error = 0, ""
    held = []
    try:
        while done < 100_000:
            if way == "shm":
                with open(f"/dev/shm/{done}", "wb") as file:
                    file.write(b"x" * (1 << 20))
            elif way == "memfd":
                memory = attack.raw(319, b"m", 0)
                if not isinstance(memory, int):
                    raise OSError(attack.errno.EPERM, memory)
                os.write(memory, b"x" * (1 << 20))
            elif way == "pipes":
                reader, writer = os.pipe()
                held.append((reader, writer))
                fcntl.fcntl(writer, 1031, 1 << 20)
                os.set_blocking(writer, False)
                os.write(writer, b"x" * (1 << 20))
            elif way == "sockets":
                one, other = socket.socketpair()
                held.append((one, other))
                one.setblocking(False)
                for side in (one, other):
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
                    side.setblocking(False)
                    try:
                        while side.send(b"x" * 65536):
                            pass
                    except BlockingIOError:
                        pass
            elif way == "epoll":
                held.append(select.epoll())
                for one in held[:-1]:
                    held[-1].register(one.fileno())
            elif way == "timers":
                identity = attack.ctypes.create_string_buffer(8)
                made = attack.raw(222, 0, 0, identity)
                if made != 0:
                    raise OSError(attack.errno.EAGAIN, made)
            done += 1
    except (OSError, MemoryError) as problem:
        error = type(problem).__name__
    attack.say(f"end of {way}", [done, error])


def outside(trial):
    from pathlib import Path

    def available():
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024

    for way in ("shm", "memfd", "pipes", "sockets", "epoll", "timers"):
        before = available()
        trial.run(f"inside({way!r})")
        trial.check(trial.cell["outcome"] in ENDS, f"{way}: {trial.cell['outcome']}")
        done, error = trial.found.get(f"end of {way}", [0, "killed"])
        trial.check(error, f"{way} met no bound: {done}")
        if trial.enforced("memory"):
            # Others use memory too; what is looked for is an order of magnitude.
            trial.check(before - available() < (128 << 20) + (512 << 20), f"{way} took {(before - available()) >> 20} MiB of the host")
        trial.api.call("POST", f"/v1/sandboxes/{trial.id}/kernels/k1/restart", {})
        trial.ask("import os; [os.unlink('/dev/shm/' + n) for n in os.listdir('/dev/shm')]; None")
