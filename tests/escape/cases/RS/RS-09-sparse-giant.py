"""RS-09: Make a file that claims to be huge.

Claim: Sizes that are only claimed take no memory.
Technique: truncate to 2^50 and to the largest size, then download, list and archive it.
Source: -
Tiers: jail bounded
"""


def inside():
    import os

    results = {}
    for size in (2**30, 2**40, 2**50, 2**62):
        open("sparse", "w").close()
        results[str(size)] = attack.result_of(lambda s=size: os.truncate("sparse", s))
    open("sparse", "w").close()
    os.truncate("sparse", 90 << 20)
    attack.say("truncates", results)


def outside(trial):
    trial.check(set(trial.found.get("truncates", {}).values()) <= {"EFBIG", "EINVAL"}, f"{trial.found.get('truncates')}")
    answer = trial.api.get(trial.id, "sparse")
    trial.check(answer.status in (200, 413), f"the download: {answer.status}")
    trial.check(len(answer.body) <= 100 << 20, f"{len(answer.body)} bytes came")
    ranged = trial.api.get(trial.id, "sparse", headers={"Range": "bytes=0-9"})
    trial.equal((ranged.status, len(ranged.body)), (206, 10), "a part")
    archive = trial.api.call("GET", trial.api.files(trial.id, "/archive", path="/workspace"))
    trial.check(archive.status in (200, 413, 507, 500), f"the archive: {archive.status}")
    trial.check(len(archive.body) <= 110 << 20, f"the archive has {len(archive.body)} bytes")
