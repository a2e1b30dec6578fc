"""XS-16: Send requests without an identity.

Claim: Without a key there is no tenant, not even a common one.
Technique: Requests with an empty, blank or half key, with two keys, and with headers that name a user.
Source: an "anonymous" tenant shared files among strangers
Tiers: jail contained
"""


def outside(trial):
    from harness.api import Api

    nobody = Api(trial.server.address, None, trial.server.tokens)
    headers = [{}, {"X-API-Key": ""}, {"X-API-Key": " "}, {"Authorization": "Bearer "}, {"Authorization": "Bearer"}, {"Authorization": "Basic YTpi"}, {"X-User-Id": "victim"},
               {"X-API-Key": "null"}, {"X-API-Key": "undefined"}, {"Authorization": "Bearer null"}, {"Cookie": f"key={trial.api.key}"}]  # fmt: skip
    for one in headers:
        for method, path, body in (("POST", "/v1/sandboxes", {}), ("GET", "/v1/sandboxes", None), ("POST", "/v1/run", {"code": "1"}), ("GET", f"/v1/sandboxes/{trial.victim.id}", None)):
            answer = nobody.call(method, path, body, headers=one)
            trial.tried()
            trial.equal(answer.status, 401, f"{method} {path} with {one}")
