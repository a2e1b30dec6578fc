"""RS-16: Use up what the kernel counts by user.

Claim: What one sandbox uses of the kernel's per-user counters no other misses.
Technique: inotify instances, pending signals, pipe pages and locked memory to the end; then another session uses the same.
Source: counters of user namespaces roll up to their creator
Tiers: jail contained; without root pipe buffers are the server's own user's
"""

USE = """
import fcntl, os, signal, mmap
reader, writer = os.pipe(); print(fcntl.fcntl(writer, 1031, 65536) >= 4096)
child = os.fork()
if child == 0: os._exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def inside():
    import ctypes
    import fcntl
    import os
    import signal

    counts = {"inotify": 0, "pipes": 0, "signals": 0, "locked": 0}
    while counts["inotify"] < 2000 and isinstance(attack.raw(294, 0), int):
        counts["inotify"] += 1
    held = []
    try:
        while counts["pipes"] < 400:
            held.append(os.pipe())
            fcntl.fcntl(held[-1][1], 1031, 1 << 20)
            counts["pipes"] += 1
    except OSError:
        pass
    signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 65))
    value = ctypes.create_string_buffer(attack.struct.pack("<iii", 40, 0, -1) + b"\0" * 116)
    while counts["signals"] < 100_000 and attack.raw(129, os.getpid(), 40, value) == 0:
        counts["signals"] += 1
    page = ctypes.create_string_buffer(1 << 20)
    while counts["locked"] < 1 << 20 and attack.libc.mlock(ctypes.byref(page, counts["locked"]), 4096) == 0:
        counts["locked"] += 4096
    attack.say("counts", counts)


def outside(trial):
    counts = trial.found.get("counts", {})
    trial.check(counts.get("signals", 10**9) <= 1024, f"signals: {counts}")
    trial.check(counts.get("locked", 10**9) <= 65536, f"locked: {counts}")
    trial.equal(trial.victim._cell(USE), "True\n5", "what the victim can do")
