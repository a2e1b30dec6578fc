"""PV-14: Find a program with set-id bits.

Claim: Programs with set-id bits, where the host's system directories hold some, do nothing of the kind inside.
Technique: Finds all of them and runs those that would show it.
Source: -
Tiers: jail contained
"""

TIMEOUT = 60


def inside():
    import os
    import stat
    import subprocess

    found = []
    for directory, folders, files in os.walk("/"):
        if directory.startswith(("/proc", "/usr/share", "/usr/include", "/opt/silica/python/lib")):
            folders.clear()
            continue
        for name in files:
            path = os.path.join(directory, name)
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                continue
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                found.append(path)
    attack.say("found", len(found))
    ids = set()
    for path in found:
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        try:
            ran = subprocess.Popen([path], **quiet)
        except PermissionError:
            continue
        try:
            ids.add(open(f"/proc/{ran.pid}/status").read().split("Uid:\t")[1].split("\n")[0])
        except (OSError, IndexError):
            pass
        ran.kill()
        ran.wait()
    attack.say("ids", sorted(ids))
    attack.say("options", [line.split()[5] for line in open("/proc/self/mountinfo") if line.split()[4] in ("/", "/usr")])


def outside(trial):
    trial.check("found" in trial.found, "nothing was looked for")
    trial.check(set(trial.found.get("ids", ["?"])) <= {"\t".join(["1000"] * 4)}, f"ids: {trial.found.get('ids')}")
    for options in trial.found.get("options", [""]):
        trial.check("nosuid" in options.split(","), f"a mount with {options}")
