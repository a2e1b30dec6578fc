"""RS-06: Push the host into swap.

Claim: A sandbox does not use swap beyond its memory.
Technique: Allocates three times its limit and touches it again and again.
Source: -
Tiers: jail bounded
"""

LIMITS = {"memory_bytes": 64 << 20, "disk_bytes": 8 << 20}
ENDS = ("out_of_memory", "raised")
TIMEOUT = 30
DRIVEN = True


def inside():
    attack.say("touching", True)
    held = [bytearray(b"x") * (1 << 20) for _ in range(192)]
    for _ in range(100):
        for one in held:
            one[0] = one[-1] = 1


def outside(trial):
    from pathlib import Path

    def swapped():
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return (int(fields["SwapTotal"].split()[0]) - int(fields["SwapFree"].split()[0])) * 1024

    before = swapped()
    trial.run()
    trial.check(trial.cell["outcome"] in ENDS, f"the attack ended in {trial.cell['outcome']}")
    trial.check(swapped() - before < 64 << 20, f"{swapped() - before} bytes of swap were used")
