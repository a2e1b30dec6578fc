"""SY-02: Enter the kernel by the 32-bit door.

Claim: A call of the i386 interface kills the process.
Technique: Machine code with int 0x80, in a child.
Source: a filter that forgets the architecture allows by wrong numbers
Tiers: jail contained
"""


def inside():
    code = bytes.fromhex("b814000000cd80c3")  # mov eax, 20 (getpid); int 0x80; ret
    attack.say("end", attack.in_child(lambda: attack.machine_code(code)() and 0))


def outside(trial):
    trial.equal(trial.found.get("end"), -31, "how the child ended (31 is SIGSYS)")
