"""LF-12: Run on after the cell has ended.

Claim: What runs after a cell, finalisers and threads alike, runs on the sandbox's own time and cannot hold up others.
Technique: __del__ that loops, weakref.finalize, a generator's finally, atexit, and a thread; then the kernel is restarted and the sandbox ended.
Source: smolagents ran __del__ after the check
Tiers: jail bounded
"""

TIMEOUT = 10


def inside():
    import atexit
    import builtins
    import threading
    import weakref

    def forever():
        while True:
            pass

    class Evil:
        def __del__(self):
            forever()

    def generator():
        try:
            yield
        finally:
            forever()

    running = generator()
    next(running)
    builtins.kept = [Evil(), running]
    weakref.finalize(builtins.kept[0], forever)
    atexit.register(forever)
    threading.Thread(target=forever, daemon=True).start()
    attack.say("armed", True)


def outside(trial):
    base = f"/v1/sandboxes/{trial.id}"
    cell = trial.api.cell(trial.id, "import builtins; builtins.kept.clear()", timeout_seconds=1)
    trial.check(cell["outcome"] in ("timed_out", "cpu_exceeded"), f"the finaliser's cell: {cell['outcome']}")
    trial.api.call("POST", f"{base}/kernels/k1/restart", {})
    trial.equal(trial.ask("print('again')"), "again", "after a restart")
