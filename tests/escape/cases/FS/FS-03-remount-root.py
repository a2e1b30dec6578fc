"""FS-03: Remount the root for writing.

Claim: No mount of a sandbox can be changed from inside.
Technique: mount(2) with MS_REMOUNT|MS_BIND, mount_setattr(2), fsopen(2), fspick(2) and open_tree(2), then a write to /.
Source: -
Tiers: jail contained
"""


def inside():
    before = open("/proc/self/mountinfo").read()
    attack.calls(
        {
            "remount": ("mount", b"none", b"/", 0, 0x20 | 0x1000, 0),
            "tmpfs": ("mount", b"none", b"/tmp", b"tmpfs", 0, 0),
            "bind": ("mount", b"/tmp", b"/etc", 0, 0x1000, 0),
            "shared": ("mount", b"none", b"/", 0, 1 << 20, 0),
            "mount_setattr": ("mount_setattr", -100, b"/", 0, b"\0" * 32, 32),
            "fsopen": ("fsopen", b"tmpfs", 0),
            "fspick": ("fspick", -100, b"/", 0),
            "open_tree": ("open_tree", -100, b"/", 1),
        }
    )
    attack.say("unchanged", open("/proc/self/mountinfo").read() == before)
    attack.attempt("write", lambda: open("/escaped", "w"))


def outside(trial):
    trial.all_refused()
    trial.equal(trial.found.get("unchanged"), True, "the mounts are as before")
    trial.refused("write", errors=("EROFS",))
