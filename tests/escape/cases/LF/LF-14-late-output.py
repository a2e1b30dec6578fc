"""LF-14: Print after the cell has ended.

Claim: Output that comes late stays in its own sandbox.
Technique: A thread and a child print a word again and again after their cell has ended; other sandboxes look at what they get.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import threading
    import time

    def late():
        for _ in range(400):
            os.write(1, b"LATEWORD\n")
            time.sleep(0.005)

    threading.Thread(target=late, daemon=True).start()
    if os.fork() == 0:
        late()
        os._exit(0)
    attack.say("started", True)


def outside(trial):
    others = [trial.victim._cell("print('mine')") for _ in range(10)]
    trial.equal(set(others), {"mine"}, "what the victim reads")
    words = trial.ask("import time; time.sleep(0.2); print('end')")
    # Pieces of late words may come before and after its own, and no other's.
    rest = words.replace("LATEWORD", "").split()
    trial.check(rest == ["end"], f"the next cell: {rest}")
