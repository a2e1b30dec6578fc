"""OT-12: Die and be reported as another cause of death.

Claim: A kill, a lack of memory and a lack of time are distinguished, by what the host observed.
Technique: Dies by SIGKILL while it prints that it is out of memory, and after it really used much of it.
Source: -
Tiers: jail contained
"""

LIMITS = {"memory_bytes": 128 << 20, "disk_bytes": 8 << 20}
ENDS = ("crashed",)


def inside():
    import os

    attack.say("dying", True)
    held = bytearray(b"x") * (40 << 20)
    os.write(2, b"MemoryError: out of memory\nKilled\n")
    os.kill(os.getpid(), 9)


def outside(trial):
    trial.equal((trial.cell["outcome"], trial.cell["exit_code"]), ("crashed", 137), "what is told")
    trial.equal(trial.cell["limits_hit"], [], "limits that were hit")
