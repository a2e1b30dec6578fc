"""FI-12: Name the host's files from inside.

Claim: The host takes no name of a file from the guest's word: it looks for itself.
Technique: Frames and results that carry paths; the host itself then determines what changed.
Source: GHSA-qrm5-r67f-6692 (LibreChat)
Tiers: jail contained
"""

ENDS = ("ok", "disconnected", "vanished", "crashed", "raised")


def inside():
    import os

    attack.say("naming", True)
    open("honest", "w").write("x")
    for head in ({"type": "file", "name": "../../../../etc/evil"}, {"type": "result", "cell": 2, "seq": 0, "main": False, "mimes": [["text/plain", 1]], "metadata": {"path": "../../../etc/evil", "filename": attack.HOST["tree"] + "/evil"}}):
        os.write(3, attack.frame(head, b"x" if head["type"] == "result" else b""))


def outside(trial):
    paths = [entry["path"] for kind in ("created", "changed", "removed") for entry in trial.cell["files"][kind] if isinstance(entry, dict)]
    trial.check(set(paths) <= {"/workspace/honest"}, f"files told: {paths}")
