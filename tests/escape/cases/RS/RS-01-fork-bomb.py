"""RS-01: Fork without end.

Claim: Processes end at the limit, and others are served as beside any busy program.
Technique: A fork bomb in the interpreter, and one in a shell.
Source: -
Tiers: jail bounded
"""

LIMITS = {"processes": 32}
TIMEOUT = 2
DRIVEN = True


def inside():
    import os

    attack.say("bomb", True)
    while True:
        try:
            os.fork()
        except OSError:
            pass


def outside(trial):
    trial.bearable(processes=10)
    trial.run(timeout_seconds=1)
    trial.equal(trial.cell["outcome"], "timed_out", "the bomb's end")
    most = len(trial.inhabitants())
    trial.check(most <= 33, f"{most} processes")
    trial.api.command(trial.id, ":() { :|:& }; :; wait", timeout_seconds=1)
