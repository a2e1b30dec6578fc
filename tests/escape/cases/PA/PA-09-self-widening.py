"""PA-09: Widen one's own policy from inside.

Claim: Nothing in a sandbox is ever read as configuration of the server.
Technique: Writes every configuration file the server knows, in every place, with settings that would show; restarts kernels and makes new sandboxes.
Source: configuration in workspaces that tools obeyed (2026)
Tiers: jail contained
"""


def inside():
    import os

    for path in ("/workspace/silica.toml", "/home/user/silica.toml", "/tmp/silica.toml", "/home/user/.config/silica/silica.toml", "/workspace/.silica/policy.toml", "/workspace/template.toml"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write('[limits.max]\nmemory = "60000G"\n[limits.default]\nprocesses = 2\n')
    os.environ["SILICA_LIMITS_MAX_MEMORY"] = "60000G"
    attack.say("written", 6)


def outside(trial):
    trial.api.want(200, "POST", f"/v1/sandboxes/{trial.id}/kernels/k1/restart", {})
    made = trial.api.create()
    trial.equal(made["limits"]["processes"], 128, "the default of a new sandbox")
    trial.api.delete(made["id"])
    answer = trial.api.call("POST", "/v1/sandboxes", {"limits": {"memory_bytes": 20 << 40}})
    trial.equal(answer.status, 400, "a limit beyond the maximum")
