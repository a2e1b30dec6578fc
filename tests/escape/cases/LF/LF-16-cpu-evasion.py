"""LF-16: Use more processor time than allowed by dividing it.

Claim: The processor time of a cell is that of all its processes together, where groups count it.
Technique: Children that each use a part, and a handler for SIGXCPU.
Source: a limit for each process is passed by forking
Tiers: jail bounded; without groups each process counts by itself
"""

LIMITS = {"cpu_seconds": 1, "cpus": 2}
TIMEOUT = 30
ENDS = ("cpu_exceeded",)
DRIVEN = True


def inside(rounds):
    import os
    import signal
    import time

    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    attack.say("dividing", rounds)
    for _ in range(rounds):
        if os.fork() == 0:
            end = time.process_time() + 0.6
            while time.process_time() < end:
                pass
            os._exit(0)
        os.wait()


def outside(trial):
    full = trial.enforced("cpu_time")
    trial.run("inside(12)" if full else "inside(2)")
    expected = "cpu_exceeded" if full else "ok"
    trial.equal(trial.cell["outcome"], expected, "the cell")
    if not full:
        trial.equal(trial.sandboxes[0].containment["measures"]["cpu_time"]["state"], "partial", "what the report says")
