"""RS-02: Start threads without end.

Claim: Threads end at the limit on processes.
Technique: Starts sleeping threads until it is refused, and counts.
Source: -
Tiers: jail bounded
"""

LIMITS = {"processes": 40}
TIMEOUT = 20


def inside():
    import os
    import threading
    import time

    started = 0
    try:
        for _ in range(5000):
            threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
            started += 1
    except RuntimeError:
        pass
    attack.say("started", started)
    attack.say("tasks", len(os.listdir("/proc/self/task")))


def outside(trial):
    trial.check(10 < trial.found.get("started", 0) <= 41, f"threads: {trial.found}")
