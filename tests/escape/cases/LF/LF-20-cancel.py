"""LF-20: Refuse to be cancelled.

Claim: An interrupt ends a cell that can be interrupted, and a restart ends any.
Technique: Interrupts a busy loop, a subprocess and an import; code that swallows interrupts is ended by a restart.
Source: -
Tiers: jail bounded
"""

DRIVEN = True


def inside(way):
    import subprocess
    import time

    attack.say(f"running {way}", True)
    open(f"/workspace/began{way}", "w").close()
    if way == 0:
        while True:
            pass
    elif way == 1:
        subprocess.run(["sleep", "1000"])
    elif way == 2:
        open("/tmp/slow.py", "w").write("import time; time.sleep(1000)")
        import sys

        sys.path.insert(0, "/tmp")
        import slow
    else:
        while True:
            try:
                time.sleep(1000)
            except BaseException:
                pass


def outside(trial):
    from harness.trial import eventually

    base = f"/v1/sandboxes/{trial.id}"
    for way in range(4):
        cell = trial.start(f"inside({way})", timeout_seconds=60)
        began = trial.api.files(trial.id, "/stat", path=f"began{way}")
        trial.check(eventually(lambda: trial.api.call("GET", began).status == 200), f"way {way} does not begin")
        if way < 3:
            trial.api.call("POST", f"{base}/cells/{cell}/interrupt", {})
        else:
            trial.api.call("POST", f"{base}/kernels/k1/restart", {})
        ended = trial.wait(cell)
        trial.check(ended["outcome"] != "ok" and ended["outcome"] != "timed_out", f"way {way}: {ended['outcome']}")
    trial.equal(trial.ask("print('again')"), "again", "afterwards")
