"""OT-02: Announce a frame that is too large.

Claim: A frame beyond the bounds ends the interpreter's connection, and the server takes no memory for it.
Technique: Lengths of 4 GiB, heads that are no JSON, half a frame, thousands of tiny ones.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside(way):
    import os

    attack.say(f"way {way}", True)
    data = {
        0: b"\xff" * 8 + b"garbage",
        1: attack.struct.pack("<II", 1 << 20, 64 << 20) + b"{",
        2: attack.struct.pack("<II", 5, 0) + b"hello",
        3: attack.struct.pack("<II", 0, 0) * 20_000,
        4: attack.frame({"type": "nonsense", "x": [[[]]]}) * 100,
        5: attack.struct.pack("<II", 200_000, 0) + b"[" * 200_000,
    }[way]
    while data:
        data = data[os.write(3, data) :]
    attack.time.sleep(0.2 if way == 1 else 0)
    os._exit(0)


def outside(trial):
    before = trial.server.memory_bytes()
    for way in range(6):
        trial.run(f"inside({way})", timeout_seconds=5)
        trial.check(trial.cell["outcome"] not in ("ok", "out_of_memory"), f"way {way}: {trial.cell['outcome']}")
        trial.equal(trial.ask("print('again')"), "again", f"after way {way}")
    grown = trial.server.memory_bytes() - before
    trial.check(grown < 160 << 20, f"the server grew by {grown >> 20} MiB")
