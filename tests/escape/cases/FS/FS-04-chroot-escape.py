"""FS-04: Leave by chroot twice.

Claim: The root of a process cannot be changed, so there is none to fall out of.
Technique: chroot into a new directory with a descriptor of the old one open, dot-dot 64 times, chroot again.
Source: the oldest escape of all
Tiers: jail contained
"""


def inside():
    import os

    before = sorted(os.listdir("/"))
    os.makedirs("d", exist_ok=True)
    above = os.open("/", os.O_RDONLY)
    attack.attempt("chroot", lambda: os.chroot("d"))
    os.fchdir(above)
    for _ in range(64):
        os.chdir("..")
    attack.attempt("again", lambda: os.chroot("."))
    attack.call("pivot_root", b".", b".")
    attack.say("root", sorted(os.listdir("/")) == before and sorted(os.listdir(".")) == before)


def outside(trial):
    trial.refused("chroot", "again", "pivot_root")
    trial.equal(trial.found.get("root"), True, "the root is the same")
