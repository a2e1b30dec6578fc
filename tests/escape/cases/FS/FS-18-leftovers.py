"""FS-18: Leave something behind.

Claim: When a sandbox ends nothing of it is left: files, processes, mounts, groups.
Technique: Writes 40 MB and thousands of files, starts processes that ignore signals and hold files, and is deleted.
Source: -
Tiers: jail contained
"""

LIMITS = {"disk_bytes": 64 << 20, "memory_bytes": 256 << 20}


def inside():
    import os
    import signal
    import time

    with open("/workspace/big", "wb") as file:
        for _ in range(40):
            file.write(b"x" * (1 << 20))
    for number in range(3000):
        open(f"/tmp/{number}", "w").close()
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            for one in range(1, 65):
                if one not in (9, 19, 32, 33):
                    signal.signal(one, signal.SIG_IGN)
            held = [open("/workspace/big") for _ in range(20)]
            while True:
                time.sleep(100)
    attack.say("left", len(os.listdir("/tmp")))


def outside(trial):
    import shutil

    trial.check(len(trial.inhabitants()) >= 6, "the processes that were to be left are not there")
    trial.end(trial.sandboxes[0])
    trial.check(not trial.inhabitants(), "processes are left")
    trial.equal(trial.api.call("GET", f"/v1/sandboxes/{trial.id}").json["state"], "ended", "the sandbox's state")
    left = [path.name for path in trial.server.home.rglob("*") if trial.id in path.name]
    trial.equal(left, [], "files of the sandbox on the host")
    trial.check(shutil.disk_usage(trial.server.home).free > 0, "the disk is full")
