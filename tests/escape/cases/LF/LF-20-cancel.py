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
    import time

    from harness.trial import eventually

    base = f"/v1/sandboxes/{trial.id}"
    for way in range(4):
        cell = trial.start(f"inside({way})", timeout_seconds=60)
        said = lambda: "\x1e" in (trial.api.want(200, "GET", f"{base}/cells/{cell}").get("stdout") or "")
        trial.check(eventually(said), f"way {way} does not begin")
        time.sleep(0.05)
        if way < 3:
            trial.api.call("POST", f"{base}/cells/{cell}/interrupt", {})
        else:
            trial.api.call("POST", f"{base}/kernels/k1/restart", {})
        ended = trial.wait(cell)
        trial.check(ended["outcome"] != "ok" and ended["outcome"] != "timed_out", f"way {way}: {ended['outcome']}")
    trial.equal(trial.ask("print('again')"), "again", "afterwards")
