"""XS-15: Use another key's sandbox by every route.

Claim: Every route answers for another key's sandbox exactly as for none.
Technique: All routes of the OpenAPI document that name a sandbox, with the victim's id and the attacker's key.
Source: CVE-2026-45349 (Open WebUI) and every such bug
Tiers: jail contained
"""


def outside(trial):
    document = trial.api.want(200, "GET", "/openapi.json")
    tried = 0
    for path, methods in document["paths"].items():
        if "sandboxes/{" not in path:
            continue
        for method in methods:
            if method not in ("get", "post", "put", "delete", "patch"):
                continue
            for fill in ("k1", "c1", "p1"):
                parts = path.split("{")
                filled = parts[0] + trial.victim.id + "".join(part.split("}", 1)[1] if number == 0 else fill + part.split("}", 1)[1] for number, part in enumerate(parts[1:]))
                query = "?path=/workspace/victim" if "/files" in path else ""
                body = {"code": "1", "command": "id", "path": "/workspace/victim", "from": "/workspace/victim", "to": "/tmp/x", "signal": 9, "seconds": 1, "ttl_seconds": 1, "columns": 1, "rows": 1, "method": "GET"}
                answer = trial.api.call(method.upper(), filled + query, body if method != "get" else None)
                tried += 1
                # A body that the route does not want may be refused before anything is looked for.
                trial.check(answer.status in (400, 404, 405), f"{method} {path}: {answer.status} {answer.text[:100]}")
    trial.tried(tried)
    trial.check(tried > 30, f"only {tried} routes were tried")
    for path, body in (("cells", {"code": "print(1)"}), ("commands", {"command": "id"}), ("kernels", {}), ("extend", {"ttl_seconds": 1}), ("kernels/k1/interrupt", {}), ("kernels/k1/restart", {})):
        answer = trial.api.call("POST", f"/v1/sandboxes/{trial.victim.id}/{path}", body)
        trial.equal((answer.status, answer.code), (404, "sandbox_not_found"), path)
    for path in ("", "/usage", "/cells", "/cells/c1", "/cells/c1/events", "/commands", "/kernels", "/kernels/k1"):
        answer = trial.api.call("GET", f"/v1/sandboxes/{trial.victim.id}{path}")
        trial.equal((answer.status, answer.code), (404, "sandbox_not_found"), path)
    listed = trial.api.call("GET", "/v1/sandboxes?state=running").text + trial.api.call("GET", "/v1/audit").text + trial.api.call("GET", "/v1/stats").text
    trial.check(trial.victim.id not in listed, "the victim's id is listed")
