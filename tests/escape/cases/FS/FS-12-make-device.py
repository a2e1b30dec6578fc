"""FS-12: Make device nodes.

Claim: No device can be made, and /dev holds only the harmless ones.
Technique: mknod(2) and mknodat(2) of memory, a disk, a terminal and /dev/null in every place that can be written.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import stat

    results = {}
    for place in ("/workspace", "/tmp", "/dev/shm", "/dev"):
        for name, kind, device in (("mem", stat.S_IFCHR, (1, 1)), ("disk", stat.S_IFBLK, (254, 0)), ("null", stat.S_IFCHR, (1, 3)), ("whiteout", stat.S_IFCHR, (0, 0))):
            path = f"{place}/{name}"
            results[path] = attack.result_of(lambda: os.mknod(path, 0o666 | kind, os.makedev(*device)))
            results[path + " old call"] = attack.raw(133, path.encode(), 0o666 | kind, os.makedev(*device))
    attack.say("nodes", results)
    attack.say("devices", sorted(os.listdir("/dev")))


def outside(trial):
    trial.all_refused("nodes", errors=("EPERM", "EROFS", "EACCES"))
    known = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero".split()
    trial.equal(trial.found.get("devices"), known, "/dev")
