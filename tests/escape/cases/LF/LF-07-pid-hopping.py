"""LF-07: Outrun the kill by forking.

Claim: A process that forks and exits for ever does not outlive its sandbox.
Technique: Several chains of forks, each parent exiting at once, while the sandbox is deleted.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import time

    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            while True:
                try:
                    if os.fork() != 0:
                        os._exit(0)
                except OSError:
                    time.sleep(0.001)
    attack.say("hopping", True)


def outside(trial):
    sandbox = trial.sandboxes[0]
    trial.end(sandbox)
    trial.check(not trial.inhabitants(sandbox), "something outran the kill")
