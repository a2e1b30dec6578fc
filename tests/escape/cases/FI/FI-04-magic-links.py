"""FI-04: Let the host follow a magic link.

Claim: Links of /proc lead the host nowhere: the server's environment and descriptors stay its own.
Technique: Links to /proc/self/environ, root, fd and cwd and to /dev/fd, downloaded and archived.
Source: such a link leaks the server's environment
Tiers: jail contained
"""


def inside():
    import os

    for number, target in enumerate(("/proc/self/environ", "/proc/self/root/etc/shadow", "/dev/fd/3", "/proc/self/fd/1", "/proc/self/cwd", "/proc/self/maps", "/dev/stdin")):
        os.symlink(target, f"m{number}")
    attack.say("links", len(os.listdir(".")))


def outside(trial):
    for number in range(trial.found.get("links", 0)):
        for path in (f"m{number}", f"m{number}/etc/passwd"):
            answer = trial.api.get(trial.id, path)
            trial.check(400 <= answer.status < 500, f"{path}: {answer.status}")
    archive = trial.api.call("GET", trial.api.files(trial.id, "/archive", path="/workspace"))
    trial.check(archive.status == 200 and b"ESCAPE_CANARY" not in archive.body and b"SILICA_HOME" not in archive.body, "the archive")
