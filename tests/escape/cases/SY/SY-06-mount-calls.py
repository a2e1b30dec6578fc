"""SY-06: Use the calls that mount.

Claim: No call of the old or new mount interface is there.
Technique: Each by number, with arguments that would succeed for root.
Source: -
Tiers: jail contained
"""


def inside():
    attack.calls({
        "mount": ("mount", b"none", b"/tmp", b"tmpfs", 0, 0), "umount2": ("umount2", b"/tmp", 2), "pivot_root": ("pivot_root", b"/tmp", b"/tmp"),
        "fsopen": ("fsopen", b"tmpfs", 0), "fsconfig": ("fsconfig", 0, 6, 0, 0, 0), "fsmount": ("fsmount", 0, 0, 0), "fspick": ("fspick", -100, b"/", 0),
        "open_tree": ("open_tree", -100, b"/", 1), "move_mount": ("move_mount", 0, b"", -100, b"/tmp", 4),
        "mount_setattr": ("mount_setattr", -100, b"/", 0, b"\0" * 32, 32), "statmount": ("statmount", 0, 0, 0, 0), "listmount": ("listmount", 0, 0, 0, 0),
    })  # fmt: skip


def outside(trial):
    trial.all_refused()
