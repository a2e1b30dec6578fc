"""FS-16: Climb out by dot-dot.

Claim: Above the root there is the root.
Technique: Lists and opens paths with many dot-dots from every writable place, through descriptors and openat2.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    top = sorted(os.listdir("/"))
    same = []
    for place in ("/workspace", "/tmp", "/home/user", "/proc/self", "/dev/shm", "/usr/lib"):
        same.append(sorted(os.listdir(place + "/.." * 40)) == top)
        descriptor = os.open(place, os.O_RDONLY)
        for _ in range(40):
            above = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = above
        same.append(sorted(os.listdir(descriptor)) == top)
        os.close(descriptor)
    attack.say("same", same)
    words = [attack.read_some("/workspace" + "/.." * 40 + path) for path in attack.HOST["canaries"]]
    attack.say("reads", dict(zip(attack.HOST["canaries"], words)))


def outside(trial):
    trial.equal(set(trial.found.get("same", [])), {True}, "what is above")
    trial.all_refused("reads", errors=("ENOENT", "EACCES"))
