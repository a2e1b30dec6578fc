"""AP-02: Find keys where they should not be.

Claim: A key in the query is not accepted, and the server keeps only its digest.
Technique: Sends keys in queries and bodies; searches the data directory and the log for the secrets of every key of this run.
Source: -
Tiers: jail contained
"""


def outside(trial):
    from harness.api import Api

    nobody = Api(trial.server.address, None, trial.server.tokens)
    for query in ("key", "api_key", "X-API-Key", "access_token", "token"):
        trial.equal(nobody.call("GET", f"/v1/stats?{query}={trial.api.key}").status, 401, query)
        trial.tried()
    secrets = [key.encode() for key in (trial.api.key, trial.server.key, trial.victim.api.key)]
    secrets += [key[7:] for key in secrets]
    for path in trial.server.home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            trial.check(not any(secret in data for secret in secrets), f"a key is in {path.name}")
