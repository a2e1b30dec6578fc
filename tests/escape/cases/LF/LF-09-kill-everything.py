"""LF-09: Kill everything that can be killed.

Claim: Signals end the own sandbox at most, with a clear word about it.
Technique: kill(-1), kill(1), killpg(0) with SIGKILL.
Source: -
Tiers: jail contained
"""

ENDS = ("crashed", "vanished", "sandbox_died", "disconnected")


def inside():
    import os
    import subprocess

    subprocess.Popen(["sleep", "100"])
    attack.say("about to kill", os.getpid())
    os.kill(1, 9)
    attack.attempt("everybody", lambda: os.kill(-1, 9))
    os.killpg(0, 9)
    os.kill(os.getpid(), 9)


def outside(trial):
    trial.check(trial.cell["lost"] or trial.cell["message"], "nothing is said about what was lost")
