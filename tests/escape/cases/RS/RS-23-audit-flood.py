"""RS-23: Flood the audit log.

Claim: Requests that are refused cost little of the disk, and what is recorded stays whole.
Technique: Thousands of requests with wrong keys, and many cells; the database's growth and the chain are looked at.
Source: -
Tiers: jail bounded
"""


def outside(trial):
    from harness.api import Api

    def size():
        return sum(path.stat().st_size for path in trial.server.home.glob("silica.db*"))

    before = size()
    wrong = Api(trial.server.address, "silica_" + "0" * 40, trial.server.tokens)
    rounds = 10_000 if trial.long else 300
    statuses = {wrong.call("POST", "/v1/run", {"code": "1"}).status for _ in range(rounds)}
    trial.tried(rounds)
    trial.check(statuses <= {401, 429}, f"statuses: {statuses}")
    trial.check(size() - before < 16 << 20, f"the database grew by {size() - before} bytes")
    trial.equal(trial.server.admin.call("GET", "/v1/audit/verify").status, 200, "the chain")
