"""FS-21: Own files as root.

Claim: What a guest makes belongs, on the host, to an id of no other user, or without root to the user who runs Silica; never to root.
Technique: Makes files with all kinds of modes and owners; the host looks at them through /proc of the process.
Source: -
Tiers: jail contained; without root the id is the server's own
"""


def inside():
    import os

    for name, mode in (("a", 0o777), ("b", 0o6777), ("c", 0o400)):
        open(name, "w").close()
        os.chmod(name, mode)
    results = {str(pair): attack.result_of(lambda p=pair: os.chown("a", *p)) for pair in ((0, 0), (0, -1), (-1, 0), (1, 1), (65534, 65534))}
    attack.say("chowns", results)


def outside(trial):
    import os
    from pathlib import Path

    trial.all_refused("chowns", errors=("EPERM", "EINVAL"))
    if os.geteuid() != 0:
        return  # Only root may look through a guest's root.
    process = trial.inhabitants()[0]
    owners = {entry.lstat().st_uid for entry in Path(f"/proc/{process.pid}/root/workspace").iterdir()}
    trial.check(len(owners) == 1 and 0 not in owners, f"owners on the host: {owners}")
    expected = trial.server.uid if not trial.root else None
    trial.check(owners == {expected} if expected else min(owners) >= 0x70000000, f"owners on the host: {owners}")
