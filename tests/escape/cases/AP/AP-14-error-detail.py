"""AP-14: Learn from errors.

Claim: No error contains a path of the host, a trace of the server, or a part of a secret.
Technique: Provokes twenty kinds of failure and searches the answers.
Source: -
Tiers: jail contained
"""


def outside(trial):
    box = trial.id
    calls = [("POST", "/v1/sandboxes", {"template": "nope"}), ("POST", "/v1/sandboxes", {"template": "../../etc"}), ("POST", "/v1/sandboxes", {"inputs": [{"name": "x", "shared": "nope"}]}), ("POST", f"/v1/sandboxes/{box}/commands", {"arguments": ["/nope"]}), ("POST", f"/v1/sandboxes/{box}/commands", {"command": "x", "directory": "/nope"}), ("POST", f"/v1/sandboxes/{box}/kernels", {"directory": "/nope"}), ("GET", trial.api.files(box, "/content", path="/nope"), None), ("GET", trial.api.files(box, "/content", path="/workspace"), None), ("PUT", trial.api.files(box, "/content", path="/workspace"), b"x"), ("GET", "/nope", None), ("POST", "/v1/run", {"code": "x" * (2 << 20)}), ("POST", "/v1/sandboxes", b"{"), ("PATCH", "/v1/sandboxes", None), ("GET", "/v1/audit?since=nope", None), ("GET", "/v1/sandboxes?page=nope", None), ("POST", f"/v1/sandboxes/{box}/cells/c99/extend", {"seconds": 1}), ("POST", f"/v1/sandboxes/{box}/commands/p9/signal", {"signal": "NOPE"}), ("GET", f"/v1/files/link?x=y", None), ("PUT", trial.api.files(box, "/archive", path="x"), b"garbage" * 500), ("POST", f"/v1/sandboxes/{box}/kernels/k9/restart", {})]
    words = (str(trial.server.home), str(trial.server.ground.binary), "panicked", "backtrace", ".rs:", "/root/", "sqlite", "crates/")
    for method, path, body in calls:
        answer = trial.api.call(method, path, body)
        trial.tried()
        trial.check(400 <= answer.status < 500, f"{method} {path[:50]}: {answer.status}")
        found = [word for word in words if word.lower() in answer.text.lower()]
        trial.check(not found, f"{method} {path[:50]} tells {found}: {answer.text[:200]}")
