"""LF-02: Wait for ever.

Claim: A cell that sleeps or blocks is ended at its limit.
Technique: sleep of thirty years, a read from an empty pipe, input(), and a lock that is never released.
Source: -
Tiers: jail bounded
"""

TIMEOUT = 0.5
DRIVEN = True


def inside(way):
    import os
    import threading
    import time

    attack.say(f"waiting {way}", True)
    if way == 0:
        time.sleep(1e9)
    elif way == 1:
        os.read(os.pipe()[0], 1)
    elif way == 2:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    else:
        attack.libc.pause()


def outside(trial):
    for way in range(4):
        trial.run(f"inside({way})")
        trial.equal(trial.cell["outcome"], "timed_out", f"way {way}")
    trial.equal(trial.api.cell(trial.id, "input()")["outcome"], "raised", "input()")
    trial.check(len(trial.found) == 4, f"waited only {trial.found}")
