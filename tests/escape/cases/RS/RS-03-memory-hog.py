"""RS-03: Take all memory.

Claim: Memory ends at the limit, and the report says so; the server does not feel it.
Technique: Fills lists with bytes that are touched, and asks for a terabyte at once.
Source: -
Tiers: jail bounded; without groups each process counts by itself
"""

LIMITS = {"memory_bytes": 96 << 20, "disk_bytes": 16 << 20, "processes": 8}
TIMEOUT = 30
DRIVEN = True


def inside(way):
    attack.say(f"way {way}", True)
    if way == 0:
        held = []
        while True:
            held.append(bytearray(b"x") * (4 << 20))
    else:
        bytearray(1 << 40)


def outside(trial):
    for way in (0, 1):
        trial.run(f"inside({way})")
        raised = (trial.cell["error"] or {}).get("name") == "MemoryError"
        trial.check(trial.cell["outcome"] == "out_of_memory" or raised, f"way {way}: {trial.cell['outcome']} {trial.cell['error']}")
    peak = trial.cell["usage"]["memory_peak_bytes"]
    if trial.enforced("memory"):
        trial.check(peak <= 1.05 * (96 << 20), f"the peak was {peak}")
    trial.equal(trial.ask("print('again')"), "again", "afterwards")
