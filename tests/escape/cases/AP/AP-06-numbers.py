"""AP-06: Send numbers at the edges.

Claim: A number that makes no sense is refused.
Technique: Negative, zero, huge, fractional, infinite and textual values for every time and limit.
Source: -
Tiers: jail contained
"""


def outside(trial):
    edges = ["-1", "1e308", "1e999", "-0.0", '"10"', "9223372036854775808", "18446744073709551616", "NaN", "Infinity", "[]", "{}", "true", "0x10", "1_000", "-1e-400"]
    for edge in edges:
        for path, field in ((f"/v1/sandboxes/{trial.id}/cells", "timeout_seconds"), ("/v1/sandboxes", "ttl_seconds"), ("/v1/sandboxes", "idle_seconds"), ("/v1/sandboxes", "max_cells")):
            body = ('{"code": "1", "%s": %s}' if "cells" in path else '{"%s": %s}') % (field, edge)
            answer = trial.api.call("POST", path, body.encode())
            trial.tried()
            trial.check(answer.status in (400, 422), f"{field} = {edge}: {answer.status} {answer.text[:80]}")
            if answer.status == 201:
                trial.api.delete(answer.json["id"])
        for name in ("memory_bytes", "cpus", "processes"):
            answer = trial.api.call("POST", "/v1/sandboxes", b'{"limits": {"%s": %s}}' % (name.encode(), edge.encode()))
            trial.check(answer.status == 400, f"{name} = {edge}: {answer.status}")
