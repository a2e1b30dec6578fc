"""RS-14: Print a line that does not end.

Claim: Output without a line's end is handled like any other.
Technique: Hundreds of megabytes without a newline, byte by byte at first, then in large pieces.
Source: -
Tiers: jail bounded
"""

LIMITS = {"wall_seconds": 30}
TIMEOUT = 30


def inside():
    import os

    attack.say("writing", True)
    for _ in range(20_000):
        os.write(2, b"x")
    for _ in range(100):
        os.write(2, b"\xf0\x9f\x98" * 350_000)


def outside(trial):
    trial.check(len(trial.cell["stderr"]) <= 200_000, f"{len(trial.cell['stderr'])} characters are kept")
    trial.check(trial.cell["truncated"]["stderr"] > 50 << 20, "the cut is not counted")
