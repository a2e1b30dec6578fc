"""PV-04: Make namespaces by clone.

Claim: clone(2) makes processes and threads, and no namespace.
Technique: The raw call with each CLONE_NEW flag, alone and together, also with high bits set.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    flags = {"user": 0x10000000, "mnt": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x08000000, "uts": 0x04000000, "cgroup": 0x02000000}
    table = {}
    for name, flag in [*flags.items(), ("all", sum(flags.values())), ("user and high bits", 0x10000000 | 1 << 40)]:
        child = attack.raw(56, flag | 17, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        table[name] = "a child" if isinstance(child, int) else child
    attack.say("calls", table)
    child = attack.raw(56, 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(7)
    attack.say("plain", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def outside(trial):
    trial.all_refused()
    trial.equal(trial.found.get("plain"), 7, "a plain clone works")
