"""XS-04: Write to what the zygote shares.

Claim: A fork has no shared mapping, pipe, socket or epoll set of its zygote.
Technique: Lists shared writable mappings and descriptors, writes to whatever it finds, and a sibling looks.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    shared = []
    for line in open("/proc/self/maps"):
        fields = line.split()
        if fields[1][3] == "s" and "w" in fields[1]:
            shared.append(line.strip())
    attack.say("shared", shared)
    links = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            links[name] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass
    attack.say("descriptors", links)


def outside(trial):
    trial.equal(trial.found.get("shared"), [], "shared writable mappings")
    names = trial.found.get("descriptors", {})
    kinds = {number: name.split(":")[0] for number, name in names.items() if not name.startswith("/proc/")}
    trial.check(set(kinds) <= {"0", "1", "2", "3"} or all(kind == "anon_inode" for number, kind in kinds.items() if int(number) > 3), f"descriptors: {names}")
    other = trial.sandbox()
    trial.run(sandbox=other.id)
    theirs = trial.found.get("descriptors", {})
    common = {name for name in names.values() if name.startswith(("socket:", "pipe:"))} & set(theirs.values())
    trial.equal(common, set(), "sockets and pipes in common with a sibling")
