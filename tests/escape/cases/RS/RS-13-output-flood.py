"""RS-13: Print without end.

Claim: Output is kept up to its limit, counted beyond, and costs the server no more.
Technique: Writes a megabyte at a time to stdout and stderr for a second, read and unread.
Source: -
Tiers: jail bounded
"""

TIMEOUT = 1
ENDS = ("timed_out",)
DRIVEN = True


def inside():
    import os

    attack.say("flooding", True)
    word = b"A" * (1 << 20)
    while True:
        os.write(1, word)
        os.write(2, word)


def outside(trial):
    before = trial.server.memory_bytes()
    trial.run()
    trial.equal(trial.cell["outcome"], "timed_out", "the end")
    trial.check(len(trial.cell["stdout"]) <= 80_000, f"{len(trial.cell['stdout'])} characters are kept")
    trial.check(trial.cell["truncated"]["stdout"] > 0, "nothing is said of what was cut")
    grown = trial.server.memory_bytes() - before
    trial.check(grown < 96 << 20, f"the server grew by {grown >> 20} MiB")
