"""AP-03: Use an ordinary key for an admin's work.

Claim: An ordinary key manages no keys and sees nothing of other keys.
Technique: Every admin route with an ordinary key; making an admin key; revoking others.
Source: -
Tiers: jail contained
"""


def outside(trial):
    keys = trial.server.admin.want(200, "GET", "/v1/keys")
    rows = keys.get("keys", keys) if isinstance(keys, dict) else keys
    first = rows[0]["id"]
    calls = [("GET", "/v1/keys", None), ("POST", "/v1/keys", {"name": "evil", "admin": True}), ("POST", "/v1/keys", {"name": "evil"}), ("DELETE", f"/v1/keys/{first}", None), ("GET", "/v1/audit/verify", None), ("GET", "/v1/admin/sandboxes", None)]
    for method, path, body in calls:
        answer = trial.api.call(method, path, body)
        trial.tried()
        trial.equal((answer.status, answer.code), (403, "forbidden"), f"{method} {path}")
    audit = trial.api.call("GET", "/v1/audit?limit=100")
    trial.check(audit.status == 200 and trial.victim.id not in audit.text, "the audit log of others")
