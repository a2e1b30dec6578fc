"""SY-03: Enter the kernel by the x32 door.

Claim: A call with the x32 bit kills the process.
Technique: syscall(0x40000000 | n) for several n, each in a child.
Source: -
Tiers: jail contained
"""


def inside():
    attack.say("ends", [attack.in_child(lambda n=n: attack.raw(0x40000000 | n, 0, 0, 0) and 0) for n in (0, 39, 56, 59, 101, 165, 520)])


def outside(trial):
    trial.equal(trial.found.get("ends"), [-31] * 7, "how the children ended")
