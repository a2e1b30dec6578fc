"""LF-06: Stop oneself.

Claim: Processes that are stopped are ended like others.
Technique: SIGSTOP to children and to itself.
Source: -
Tiers: jail bounded
"""

TIMEOUT = 0.5
ENDS = ("timed_out",)


def inside():
    import os
    import signal

    for _ in range(3):
        if os.fork() == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
    attack.say("stopping", True)
    os.kill(os.getpid(), signal.SIGSTOP)


def outside(trial):
    trial.equal(trial.ask("print('again')"), "again", "the sandbox afterwards")
