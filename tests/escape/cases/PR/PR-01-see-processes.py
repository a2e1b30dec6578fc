"""PR-01: See other processes.

Claim: A guest sees the processes of its own sandbox and no others.
Technique: Lists /proc, asks kill(2) with signal 0 and sched_getparam(2) about 70000 numbers.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    listed = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    answering = []
    for pid in range(1, 70000):
        try:
            os.kill(pid, 0)
            answering.append(pid)
        except PermissionError:
            answering.append(pid)
        except ProcessLookupError:
            pass
    attack.say("listed", listed)
    attack.say("answering", answering)
    attack.say("self", os.getpid())


def outside(trial):
    own = {1, trial.found.get("self")}
    trial.check(set(trial.found.get("listed", [0])) <= own, f"listed: {trial.found.get('listed')}")
    trial.check(set(trial.found.get("answering", [0])) <= own, f"answering: {trial.found.get('answering')}")
