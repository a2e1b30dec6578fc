"""RS-08: Make files without end.

Claim: The number of files is bounded; listing, archiving and ending still work.
Technique: Makes empty files until it is refused.
Source: -
Tiers: jail bounded
"""

LIMITS = {"disk_bytes": 16 << 20}


def inside():
    made, error = 0, ""
    try:
        for made in range(1_000_000):
            open(f"f{made}", "w").close()
    except OSError as problem:
        error = attack.errno.errorcode[problem.errno]
    attack.say("made", [made, error])


def outside(trial):
    made, error = trial.found.get("made", [0, ""])
    trial.equal(error, "ENOSPC", "the end")
    trial.check(made < 20_000, f"{made} files")
    listing = trial.api.call("GET", trial.api.files(trial.id, path="/workspace", depth=1))
    trial.check(listing.status == 200 and len(listing.body) < 8 << 20, f"the listing: {listing.status}, {len(listing.body)} bytes")
    trial.equal(trial.api.call("GET", trial.api.files(trial.id, "/archive", path="/workspace")).status, 200, "the archive")
