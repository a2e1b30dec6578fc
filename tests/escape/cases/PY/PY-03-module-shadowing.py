"""PY-03: Shadow the runner's modules.

Claim: Modules in the working directory shadow nothing of ours.
Technique: Uploads json.py, socket.py, os.py, wire.py, numpy.py and encodings/, then restarts and makes kernels.
Source: -
Tiers: jail contained
"""


def outside(trial):
    for name in ("json.py", "socket.py", "os.py", "sys.py", "wire.py", "kernel.py", "struct.py", "numpy.py", "encodings/__init__.py", "silica_guest/__init__.py", "asyncio.py", "signal.py", "select.py"):
        for place in ("/workspace", "/home/user", "/tmp"):
            trial.equal(trial.api.put(trial.id, f"{place}/{name}", b"raise SystemExit('shadowed')\n").status, 201, name)
            trial.tried()
    trial.api.want(200, "POST", f"/v1/sandboxes/{trial.id}/kernels/k1/restart", {})
    trial.equal(trial.ask("print('runs')"), "runs", "after a restart")
    kernel = trial.api.want(201, "POST", f"/v1/sandboxes/{trial.id}/kernels", {"directory": "/workspace"})["id"]
    cell = trial.api.cell(trial.id, "print('runs')", kernel=kernel)
    trial.equal(cell["stdout"], "runs\n", "a second kernel")
