"""PV-18: Send hostile variables through the API.

Claim: Variables act inside and never on a helper of the host; malformed names are refused.
Technique: Creates sandboxes, kernels and commands with LD_PRELOAD, LD_AUDIT, PYTHONSTARTUP, GCONV_PATH and PATH, and with names that are none.
Source: -
Tiers: jail contained
"""

HOSTILE = {
    "LD_PRELOAD": "/workspace/evil.so",
    "LD_AUDIT": "/workspace/evil.so",
    "PYTHONSTARTUP": "/workspace/evil.py",
    "PYTHONPATH": "/workspace",
    "PYTHONHOME": "/workspace",
    "GCONV_PATH": "/workspace",
    "PATH": "/workspace:/usr/bin:/bin",
    "SILICA_HOME": "/workspace",
}


def outside(trial):
    box = trial.sandbox(env=HOSTILE)
    trial.tried()
    trial.equal(trial.ask("import os; print(os.environ['PYTHONHOME'])", box.id), "/workspace", "the variable is set inside")
    kernel = trial.api.call("POST", f"/v1/sandboxes/{box.id}/kernels", {"env": HOSTILE})
    command = trial.api.call("POST", f"/v1/sandboxes/{box.id}/commands", {"command": "echo $LD_AUDIT", "env": HOSTILE})
    trial.check(kernel.status < 500 and command.status < 500, f"a kernel {kernel.status}, a command {command.status}")
    for name in ("", "A=B", "A\0B", "=", "A\n=x\0", "x" * 100_000):
        answer = trial.api.call("POST", "/v1/sandboxes", {"env": {name: "x"}})
        trial.tried()
        trial.check(answer.status in (400, 422), f"the name {name[:9]!r} gives {answer.status}")
        if answer.status == 201:
            trial.api.delete(answer.json["id"])
    answer = trial.api.call("POST", "/v1/sandboxes", {"env": {"A": "x\0y"}})
    trial.check(answer.status in (400, 422), f"a value with a zero byte gives {answer.status}")
    if answer.status == 201:
        trial.api.delete(answer.json["id"])
