"""RS-24: Storm the disk.

Claim: A guest cannot make the host write: its files are memory, and the calls that flush everything are refused.
Technique: sync(2), syncfs(2), fsync in a loop, O_DIRECT, while another session is timed.
Source: -
Tiers: jail bounded
"""

TIMEOUT = 3
DRIVEN = True


def inside():
    import os
    import time

    descriptor = os.open("/workspace/x", os.O_RDWR | os.O_CREAT)
    attack.say("calls", {"sync": attack.raw(162), "syncfs": attack.raw(306, descriptor)})
    end = time.monotonic() + 2
    rounds = 0
    while time.monotonic() < end:
        os.pwrite(descriptor, b"x" * 4096, (rounds % 1000) * 4096)
        os.fsync(descriptor)
        rounds += 1
    attack.say("rounds", rounds)


def outside(trial):
    trial.bearable()
    trial.run()
    trial.all_refused()
    trial.check(trial.found.get("rounds", 0) > 100, f"rounds: {trial.found.get('rounds')}")
