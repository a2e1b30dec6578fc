"""AP-05: Ask for more in undocumented fields.

Claim: Fields that are not part of a request are refused, and limits stay within the operator's.
Technique: tier, privileged, mounts, uid, seccomp, preload, owner and id in every body; limits beyond the maximum.
Source: dify-sandbox's preload field
Tiers: jail contained
"""


def outside(trial):
    evil = {"tier": "none", "privileged": True, "mounts": ["/"], "uid": 0, "seccomp": "unconfined", "preload": "import os", "owner": "x", "id": "sbx_x", "network": True, "faults": {"shell_step": 1}, "cgroups": False, "devices": ["/dev/mem"], "user": "root", "capabilities": ["ALL"], "host": True}
    for name, value in evil.items():
        for path, body in (("/v1/sandboxes", {}), ("/v1/run", {"code": "1"}), (f"/v1/sandboxes/{trial.id}/cells", {"code": "1"}), (f"/v1/sandboxes/{trial.id}/commands", {"command": "true"}), (f"/v1/sandboxes/{trial.id}/kernels", {})):
            answer = trial.api.call("POST", path, {**body, name: value})
            trial.tried()
            trial.equal((answer.status, answer.code), (400, "bad_request"), f"{path} with {name}")
    for name, value in (("memory_bytes", 10**15), ("cpus", 10**6), ("processes", 10**9), ("wall_seconds", 10**12), ("disk_bytes", 10**15), ("open_files", 10**9), ("output_bytes", 10**15), ("unknown", 1)):
        answer = trial.api.call("POST", "/v1/sandboxes", {"limits": {name: value}})
        trial.check(answer.status == 400, f"the limit {name}: {answer.status}")
