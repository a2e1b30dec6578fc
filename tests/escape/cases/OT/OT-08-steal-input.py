"""OT-08: Steal what the host says next.

Claim: What the host sends is for the interpreter of the same sandbox, and taking it harms only that.
Technique: A thread and a child read from the control socket and from stdin while the next cells are sent.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import os
    import threading

    attack.say("stdin", [os.read(0, 100).decode(), __import__("sys").stdin.read()])

    def steal():
        while True:
            try:
                if not os.read(3, 1 << 16):
                    return
            except OSError:
                return

    threading.Thread(target=steal, daemon=True).start()
    if os.fork() == 0:
        steal()
        os._exit(0)


def outside(trial):
    trial.run()
    trial.equal(trial.found.get("stdin"), ["", ""], "standard input")
    cell = trial.api.cell(trial.id, "print('own')", timeout_seconds=1)
    trial.check(cell["outcome"] in ("ok", "timed_out", "disconnected", "vanished", "exited", "crashed"), f"the next cell: {cell['outcome']}")
    trial.equal(trial.victim._cell("print('other')"), "other", "another session")
    trial.api.want(200, "POST", f"/v1/sandboxes/{trial.id}/kernels/k1/restart", {})
    trial.equal(trial.ask("print('again')"), "again", "after a restart")
