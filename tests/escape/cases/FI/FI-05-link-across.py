"""FI-05: Link to another session's file.

Claim: Another session's files have no name that could be linked, and no inode that could be reached.
Technique: link(2) to guessed paths, to descriptors, and by names the victim has; renames and exchanges across the own places.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    results = {}
    for path in ("/workspace/victim", "/tmp/victim", "/home/user/victim", "/dev/shm/victim", "/proc/1/root/workspace/victim", "/tmp/victim.sock"):
        results[path] = attack.result_of(lambda p=path: os.link(p, "/tmp/got"))
        results["open " + path] = attack.result_of(lambda p=path: os.open(p, os.O_RDONLY))
    attack.say("links", results)


def outside(trial):
    trial.all_refused("links", errors=("ENOENT", "EACCES", "EPERM", "ENXIO"))
