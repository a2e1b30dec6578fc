"""FI-14: Unpack more than there is room for.

Claim: An archive fills the sandbox's disk at most.
Technique: A tar of sparse entries, of a hundred thousand empty files, of nested folders without end, and one whose sizes lie.
Source: -
Tiers: jail bounded
"""

LIMITS = {"disk_bytes": 8 << 20}


def outside(trial):
    import io
    import tarfile

    def put(make):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            make(tar)
        answer = trial.api.call("PUT", trial.api.files(trial.id, "/archive", path="/workspace"), data.getvalue())
        trial.tried()
        return answer.status

    def big(tar):
        info = tarfile.TarInfo("big")
        info.size = 20 << 20
        tar.addfile(info, io.BytesIO(b"\0" * info.size))

    def many(tar):
        for number in range(20_000):
            tar.addfile(tarfile.TarInfo(f"f{number}"))

    def deep(tar):
        for number in range(1, 400):
            info = tarfile.TarInfo("/".join(["d"] * number))
            info.type = tarfile.DIRTYPE
            tar.addfile(info)

    statuses = {"big": put(big), "many": put(many), "deep": put(deep)}
    # The server may close the connection before all is sent; that is a 0 here.
    trial.check(statuses["big"] in (507, 413, 0), f"statuses: {statuses}")
    trial.check(statuses["many"] in (507, 413, 400, 0), f"statuses: {statuses}")
    trial.check(statuses["deep"] < 500 or statuses["deep"] == 507, f"statuses: {statuses}")
    header = tarfile.TarInfo("lie")
    header.size = 1 << 40
    lie = trial.api.call("PUT", trial.api.files(trial.id, "/archive", path="/workspace"), header.tobuf() + b"x" * 1024)
    trial.check(400 <= lie.status < 500 or lie.status in (507, 0), f"a size that lies: {lie.status}")
    used = int(trial.ask("import os; s = os.statvfs('/workspace'); print((s.f_blocks - s.f_bfree) * s.f_frsize)"))
    trial.check(used <= 8 << 20, f"{used} bytes are used")
