"""OT-07: Close and swap the standard streams.

Claim: A cell ends and the next one is heard, whatever was done to the streams, or the interpreter is replaced.
Technique: Closes 1, swaps 1 and 2, opens /proc/self/fd/1 for writing, makes the pipe blocking, shrinks it.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside(way):
    import fcntl
    import os

    attack.say(f"way {way}", True)
    if way == 0:
        os.close(1)
    elif way == 1:
        os.dup2(2, 1)
    elif way == 2:
        os.open("/proc/self/fd/1", os.O_WRONLY)
        os.set_blocking(1, False)
    elif way == 3:
        fcntl.fcntl(1, 1031, 4096)
        os.set_blocking(1, True)
    elif way == 4:
        os.closerange(0, 3)
    else:
        os.close(3)


def outside(trial):
    for way in range(6):
        trial.run(f"inside({way})", timeout_seconds=5)
        trial.api.want(200, "POST", f"/v1/sandboxes/{trial.id}/kernels/k1/restart", {})
        trial.equal(trial.ask("print('heard')"), "heard", f"after way {way}")
