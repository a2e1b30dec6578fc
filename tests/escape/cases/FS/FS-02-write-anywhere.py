"""FS-02: Write anywhere but where one may.

Claim: Only /workspace, /home/user, /tmp and /dev/shm can be written.
Technique: Walks every directory that can be seen, and tries to make, append, rename, remove and change modes there.
Source: -
Tiers: jail contained
"""

LIMITS = {"memory_bytes": 256 << 20}
TIMEOUT = 60


def inside():
    import os

    allowed = ("/workspace", "/home/user", "/tmp", "/dev/shm", "/proc", "/dev/pts")
    written, tried = [], 0
    for directory, folders, files in os.walk("/"):
        if directory.startswith(allowed):
            folders.clear()
            continue
        depth = directory.count("/")
        if depth > 4:
            folders.clear()
        tried += 1
        path = os.path.join(directory, "escape-probe")
        acts = [lambda: open(path, "w").close(), lambda: os.mkdir(path + "d"), lambda: os.symlink("/", path + "l")]
        if files:
            victim = os.path.join(directory, files[0])
            acts += [lambda: os.rename(victim, victim + "x"), lambda: os.unlink(victim), lambda: os.chmod(victim, 0o777),
                     lambda: os.utime(victim), lambda: os.truncate(victim, 0)]  # fmt: skip
        if tried % 7 and depth > 2:
            acts = acts[:1]
        # Devices are nodes to write to, and writing to them changes nothing.
        if directory == "/dev":
            acts = acts[:3]
        written += [f"{directory} {number}" for number, act in enumerate(acts) if attack.result_of(act) == "ok"]
    attack.say("tried", tried)
    attack.say("written", written[:20])
    attack.say("writable", {place: attack.result_of(lambda p=place: open(p + "/x", "w").close()) for place in allowed[:4]})


def outside(trial):
    trial.check(trial.found.get("tried", 0) > 100, f"only {trial.found.get('tried')} directories were tried")
    trial.equal(trial.found.get("written"), [], "places that could be written")
    trial.equal(set(trial.found.get("writable", {}).values()), {"ok"}, "places that should be writable")
