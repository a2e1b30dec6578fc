"""FS-10: Make a hard link to a file of the template.

Claim: Shared files cannot be linked into a place that can be written.
Technique: link(2) and linkat(2) of programs and libraries into /workspace, /tmp, and through /proc/self/fd.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import sys

    results = {}
    for source in ("/bin/sh", "/etc/passwd", os.path.realpath(sys.executable), os.__file__):
        for place in ("/workspace", "/tmp", "/home/user"):
            results[f"{source} {place}"] = attack.result_of(lambda s=source, p=place: os.link(s, p + "/linked"))
        descriptor = os.open(source, os.O_RDONLY)
        target = f"/proc/self/fd/{descriptor}"
        results[f"{source} by descriptor"] = attack.result_of(lambda t=target: os.link(t, "/tmp/l", follow_symlinks=True))
    attack.say("links", results)


def outside(trial):
    trial.all_refused("links", errors=("EXDEV", "EPERM", "EACCES"))
