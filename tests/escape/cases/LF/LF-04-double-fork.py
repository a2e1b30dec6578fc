"""LF-04: Live on as a daemon.

Claim: A process that left its parents behind ends with its sandbox.
Technique: Forks twice with a session of its own, closes its streams, and loops.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import time

    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 10)
            while True:
                time.sleep(1)
        os._exit(0)
    os.wait()
    attack.say("left", True)


def outside(trial):
    daemons = [process for process in trial.inhabitants() if process.pid]
    trial.check(len(daemons) >= 2, "the daemon is not there")
    trial.end(trial.sandboxes[0])
    trial.check(not trial.inhabitants(), "the daemon lives on")
