"""RS-07: Fill the disk.

Claim: Files end at the sandbox's own disk, and the host's disk is not touched.
Technique: Writes to every writable place until it is refused.
Source: -
Tiers: jail bounded
"""

LIMITS = {"disk_bytes": 16 << 20, "memory_bytes": 128 << 20}


def inside():
    total, errors = 0, []
    for place in ("/workspace", "/tmp", "/home/user", "/dev/shm"):
        try:
            with open(place + "/x", "wb", buffering=0) as file:
                for _ in range(64):
                    total += file.write(b"x" * (1 << 20))
        except OSError as error:
            errors.append(attack.errno.errorcode[error.errno])
    attack.say("written", [total, errors])


def outside(trial):
    import shutil

    total, errors = trial.found.get("written", [0, []])
    trial.check((8 << 20) < total <= 16 << 20, f"{total} bytes were written")
    trial.equal(set(errors), {"ENOSPC"}, "errors")
    answer = trial.api.put(trial.id, "more", b"x" * 100_000)
    trial.equal((answer.status, answer.code), (507, "disk_full"), "an upload")
    trial.check(shutil.disk_usage("/").free > 0, "the host's disk is full")
