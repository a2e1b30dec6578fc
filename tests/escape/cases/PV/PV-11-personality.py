"""PV-11: Switch address randomisation off.

Claim: The personality of a process can be asked for and not changed.
Technique: personality(2) with ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC and others, and setarch -R.
Source: -
Tiers: jail contained
"""


def inside():
    import subprocess

    attack.calls({hex(value): ("personality", value) for value in (0x0040000, 0x0400000, 0x0440000, 0x8, 0x0200000)})
    ran = subprocess.run(["setarch", "-R", "true"], capture_output=True)
    attack.say("program", ran.returncode != 0)
    attack.say("asked", attack.raw(135, 0xFFFFFFFF))


def outside(trial):
    trial.all_refused()
    trial.equal(trial.found.get("program"), True, "setarch is refused")
    trial.equal(trial.found.get("asked"), 0, "the personality")
