"""SY-14: Run a program that is no file.

Claim: A program from memory is bound like any other.
Technique: memfd_create and execveat of a program made of machine code, which tries unshare, mount and ptrace.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    # Three calls, their errors added up as digits: unshare(NEWUSER), mount(…), ptrace(TRACEME).
    code = bytes.fromhex(
        "bf00000010b8100100000f05f7d84189c4"  # r12 = -unshare
        "31ff31f631d24d31d24d31c0b8a50000000f05f7d84101c4"  # r12 += -mount
        "31ff31f631d24d31d2b8650000000f05f7d84101c4"  # r12 += -ptrace
        "4489e7b83c0000000f05"
    )
    entry, size = 0x400078, 0x78 + len(code)
    head = attack.struct.pack("<4s5B7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 0, 2, 62, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = attack.struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, size, size, 0x1000)
    memory = attack.raw(319, b"nothing", 0)
    attack.say("memfd", memory)
    if not isinstance(memory, int):
        return
    os.write(memory, head + segment + code)
    attack.say("end", attack.in_child(lambda: os.execve(memory, ["x"], {})))
    attack.say("execveat", attack.in_child(lambda: attack.raw(322, memory, b"", 0, 0, 0x1000) and 98))


def outside(trial):
    if trial.found.get("memfd") in ("EPERM", "ENOSYS"):
        return
    # Three times EPERM is three; an exec that is refused ends in 98 or 99.
    trial.check(trial.found.get("end") in (3, 98, 99), f"the program's calls add up to {trial.found.get('end')}")
    trial.check(trial.found.get("execveat") in (3, 98, 99), f"and by execveat to {trial.found.get('execveat')}")
