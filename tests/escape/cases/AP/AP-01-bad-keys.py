"""AP-01: Come with a bad key.

Claim: A missing, wrong, revoked or misspelt key is refused, always with the same words.
Technique: Keys that are absent, of the wrong length, revoked, in capitals, with spaces, and of another prefix.
Source: -
Tiers: jail contained
"""


def outside(trial):
    from harness.api import Api

    identity, secret = trial.server.new_key("revoked")
    held = Api(trial.server.address, secret, trial.server.tokens)
    trial.equal(held.call("GET", "/v1/stats").status, 200, "before it is revoked")
    trial.server.admin.want(204, "DELETE", f"/v1/keys/{identity}")
    good = trial.api.key
    keys = [None, "silica_" + "0" * 40, secret, good[:-1], good + "0", good.upper(), "silica_" + good[7:].upper(), "x" + good, "silica_", "0" * 40, good.replace("silica_", "other_"), good[7:], "silica_" + "z" * 40, "é" * 20]
    bodies = set()
    for key in keys:
        wrong = Api(trial.server.address, None, trial.server.tokens)
        for headers in ([{"X-API-Key": key}, {"Authorization": f"Bearer {key}"}] if key else [{}]):
            headers = {name: value.encode("utf-8").decode("latin-1") for name, value in headers.items()}
            answer = wrong.call("GET", "/v1/stats", headers=headers)
            trial.tried()
            trial.equal((answer.status, answer.code), (401, "unauthorized"), f"key {str(key)[:12]}…")
            bodies.add(answer.json["detail"])
    trial.check(len(bodies) <= 2, f"the words differ: {bodies}")
