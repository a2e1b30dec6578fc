"""PV-06: Join another namespace.

Claim: No namespace can be joined, not even one's own.
Technique: setns(2) with every namespace file it can open, with a pidfd, and with the control socket.
Source: -
Tiers: jail contained
"""


def inside():
    import glob
    import os

    table = {}
    for path in glob.glob("/proc/[0-9]*/ns/*") + glob.glob("/proc/self/ns/*"):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        table[path] = attack.raw(308, descriptor, 0)
        os.close(descriptor)
    for pid in (1, os.getpid()):
        pidfd = attack.raw(434, pid, 0)
        if isinstance(pidfd, int):
            table[f"pidfd of {pid}"] = attack.raw(308, pidfd, 0x10000000 | 0x20000)
    table["control socket"] = attack.raw(308, 3, 0)
    attack.say("calls", table)


def outside(trial):
    trial.all_refused()
    trial.check(len(trial.found.get("calls", {})) > 8, "too little was tried")
