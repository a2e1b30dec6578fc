"""RS-22: Fill the kernel's cache of names.

Claim: Looking for names that do not exist fills no memory but the sandbox's own.
Technique: Hundreds of thousands of stat calls on missing names, long and short, while the host's slab is watched.
Source: -
Tiers: jail bounded; without groups the kernel's own bounds hold
"""

LIMITS = {"memory_bytes": 96 << 20, "disk_bytes": 8 << 20, "wall_seconds": 30}
ENDS = ("ok", "out_of_memory")
TIMEOUT = 30
DRIVEN = True


def inside(count):
    import os

    attack.say("looking", count)
    for number in range(count):
        try:
            os.stat(f"/tmp/{number:0200d}")
        except OSError:
            pass
        try:
            os.stat(f"/usr/{number}")
        except OSError:
            pass


def outside(trial):
    from pathlib import Path

    def slab():
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(fields["SUnreclaim"].split()[0]) * 1024

    before = slab()
    trial.run("inside(500_000)" if trial.long else "inside(100_000)", timeout_seconds=120 if trial.long else 30)
    trial.check(trial.cell["outcome"] in ENDS, f"the attack ended in {trial.cell['outcome']}")
    trial.check(slab() - before < 256 << 20, f"the kernel's memory grew by {(slab() - before) >> 20} MiB")
