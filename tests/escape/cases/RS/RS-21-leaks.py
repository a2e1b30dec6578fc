"""RS-21: Wear the server down by coming and going.

Claim: Sandboxes that come and go, also by crashes and timeouts, leave nothing in the server or on the host.
Technique: Many cycles of create, run or crash, delete; then descriptors, processes, groups and memory are counted.
Source: -
Tiers: jail contained
"""

CODES = ("print(1)", "import os; os._exit(1)", "while True: pass", "import os; os.kill(1, 9)", "1/0", "x = b'x' * (1 << 30)")


def outside(trial):
    from harness import host
    from harness.trial import eventually

    def counts():
        return len(host.below(trial.server.pid)), trial.server.descriptors(), len(host.mounts())

    before, memory = counts(), trial.server.memory_bytes()
    rounds = 1000 if trial.long else 60
    for number in range(rounds):
        box = trial.api.create(limits={"memory_bytes": 64 << 20, "disk_bytes": 1 << 20})["id"]
        trial.api.call("POST", f"/v1/sandboxes/{box}/cells", {"code": CODES[number % len(CODES)], "timeout_seconds": 0.05})
        trial.api.delete(box)
    trial.tried(rounds)
    within = lambda: all(now <= old + more for now, old, more in zip(counts(), before, (12, 12, 0)))
    trial.check(eventually(within), f"processes, descriptors, mounts: {before}, then {counts()}")
    grown = trial.server.memory_bytes() - memory
    trial.check(grown < (64 << 20), f"the server grew by {grown >> 20} MiB in {rounds} rounds")
