"""PR-10: Find a control group's release agent.

Claim: There is no control group file system and no /sys inside.
Technique: Looks for cgroup.procs and release_agent everywhere, and tries to mount a hierarchy.
Source: CVE-2022-0492
Tiers: jail contained
"""

TIMEOUT = 60


def inside():
    import os

    found, seen = [], 0
    for directory, folders, files in os.walk("/"):
        seen += 1
        if directory.startswith(("/proc/", "/usr/share", "/usr/lib/python")):
            folders.clear()
        found += [os.path.join(directory, name) for name in files if name in ("cgroup.procs", "release_agent", "tasks", "notify_on_release")]
    attack.say("found", found)
    attack.say("seen", seen)
    for version in (b"cgroup", b"cgroup2"):
        attack.call("mount", version, b"/tmp", version, 0, 0)
    attack.attempt("sys", lambda: os.listdir("/sys"))


def outside(trial):
    trial.equal(trial.found.get("found"), [], "files of control groups")
    trial.check(trial.found.get("seen", 0) > 50, "nothing was looked at")
    trial.refused("mount")
    trial.refused("sys", errors=("ENOENT",))
