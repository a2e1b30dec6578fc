"""FS-05: Find the old root behind the new one.

Claim: The list of mounts is short and known, each with its flags, and nothing of the host's tree hangs below.
Technique: Unmounts everything with umount2(2), then compares mountinfo with the list it should be.
Source: -
Tiers: jail contained
"""

# Kind of file system and whether it may be written, by mount point; system directories vary with the host.
EXPECTED = {
    "/": ("overlay", "ro"),
    "/proc": ("proc", "rw"),
    "/dev/pts": ("devpts", "rw"),
    "/dev/shm": ("tmpfs", "rw"),
    "/tmp": ("tmpfs", "rw"),
    "/workspace": ("tmpfs", "rw"),
    "/home/user": ("tmpfs", "rw"),
}
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")


def inside():
    import os

    points = [line.split()[4] for line in open("/proc/self/mountinfo")]
    attack.say("unmounts", {point: attack.raw(166, point.encode(), 2) for point in reversed(points)})
    table = {}
    for line in open("/proc/self/mountinfo"):
        fields, rest = line.split(" - ")
        point, options = fields.split()[4:6]
        table[point] = [rest.split()[0], options.split(",")]
    attack.say("mounts", table)
    attack.say("old", [name for name in (".old", "oldroot", "old_root", "put_old", ".pivot") if os.path.lexists("/" + name)])


def outside(trial):
    trial.all_refused("unmounts")
    trial.equal(trial.found.get("old"), [], "remains of an old root")
    table = trial.found.get("mounts", {})
    for point, (kind, mode) in EXPECTED.items():
        found_kind, options = table.get(point, ["", []])
        trial.check(found_kind == kind and mode in options, f"{point}: {found_kind} {options}")
    for point, (kind, options) in table.items():
        if point in EXPECTED or point.startswith("/dev/"):
            continue
        if point in SYSTEM or point.startswith(("/usr/", "/data/input", "/opt/")):
            trial.check("ro" in options and "nosuid" in options and "nodev" in options, f"{point}: {options}")
        else:
            trial.check(point == "/dev" or "ro" in options, f"a mount nobody expects: {point} {kind} {options}")
