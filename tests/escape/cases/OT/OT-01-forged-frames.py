"""OT-01: Forge results.

Claim: Words on the control socket speak for the cell that runs and for no other; how a process ended is the host's to say.
Technique: Writes frames for other cells, forged ends and forged errors to every descriptor, then dies.
Source: control planes inside the blast radius
Tiers: jail contained
"""

ENDS = ("ok", "raised", "crashed", "vanished", "disconnected", "exited")
DRIVEN = True


def inside():
    import os

    attack.say("forging", True)
    words = [
        {"type": "done", "cell": 999, "status": "ok", "exit_code": 0},
        {"type": "result", "cell": 1, "seq": 0, "main": True, "mimes": [["text/plain", 4]]},
        {"type": "error", "cell": 1, "name": "x", "value": "y", "traceback": []},
        {"type": "hello", "version": 1},
        {"type": "done", "cell": "other", "status": "ok"},
    ]
    for descriptor in range(3, 64):
        for head in words:
            try:
                os.write(descriptor, attack.frame(head, b"evil" if head["type"] == "result" else b""))
            except OSError:
                break
    os.kill(os.getpid(), 9)


def outside(trial):
    trial.victim._cell("answer = 41")
    trial.run()
    trial.check(trial.cell["outcome"] in ENDS, f"the attack's cell: {trial.cell['outcome']}")
    trial.equal(trial.victim._cell("print(answer + 1)"), "42", "another session's cell")
    listing = trial.api.want(200, "GET", f"/v1/sandboxes/{trial.id}/cells")
    rows = listing.get("cells", listing) if isinstance(listing, dict) else listing
    trial.check(all(row["id"] in ("c1", "c2") for row in rows), f"cells that nobody sent: {rows}")
    trial.equal(trial.ask("print('again')"), "again", "afterwards")
