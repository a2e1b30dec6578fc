"""RS-12: Use every processor.

Claim: A sandbox gets its share of the processors and others theirs.
Technique: 64 busy processes and threads, while another session is timed.
Source: -
Tiers: jail bounded; without groups there is no share, others are only served
"""

TIMEOUT = 5
DRIVEN = True


def inside():
    import os

    attack.say("busy", True)
    for _ in range(63):
        if os.fork() == 0:
            while True:
                pass
    while True:
        pass


def outside(trial):
    seen = trial.bearable(processes=20)
    trial.tried(seen)
    trial.check(seen >= 20, f"only {seen} processes were busy")
