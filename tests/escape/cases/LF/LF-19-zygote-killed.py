"""LF-19: Kill the zygote.

Claim: When a zygote dies, running sandboxes go on and new ones are still made.
Technique: The host kills every zygote of a server while sandboxes run.
Source: -
Tiers: jail contained
"""

CROWDED = False


def outside(trial):
    import os
    from pathlib import Path

    from harness import host
    from harness.trial import eventually

    with trial.own_server(pool="python=1") as server:
        api = server.holder("attacker")
        box = api.create()["id"]
        api.cell(box, "kept = 7")
        zygotes = []
        for process in host.below(server.pid):
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            if any(word.endswith(b"zygote.py") for word in words) and host.process_namespace(process.pid) != "":
                zygotes.append(process)
        # Forks of a zygote have its words; it is the oldest of them.
        oldest = min(zygotes, key=lambda process: process.started)
        os.kill(oldest.pid, 9)
        trial.tried()
        trial.check(eventually(lambda: (p := host.processes().get(oldest.pid)) is None or p.started != oldest.started or p.state == "Z"), "the zygote lives")
        trial.equal(api.cell(box, "print(kept)")["stdout"], "7\n", "a running sandbox")
        for _ in range(3):
            new = api.create()["id"]
            trial.equal(api.cell(new, "print(2 + 2)")["stdout"], "4\n", "a new sandbox")
            api.delete(new)
