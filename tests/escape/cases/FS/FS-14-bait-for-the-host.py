"""FS-14: Leave bait that the host walks into after the code has run.

Claim: Whatever the code makes of its directories, the host touches nothing outside the sandbox.
Technique: Replaces directories by links to /, /proc and host paths, then lets the host write, list, archive, unpack, move, remove, start a command and a kernel through them.
Source: CVE-2025-31133, CVE-2025-52565, CVE-2026-41579 (runc), CVE-2026-1386 (Firecracker's jailer)
Tiers: jail contained
"""


def inside():
    import os
    import shutil

    tree = attack.HOST["tree"]
    for name, target in (("a", tree), ("b", "/"), ("c", "/proc/self/root"), ("d", "/proc/self/fd/3"), ("e", tree + "/keep")):
        os.symlink(target, "/workspace/" + name)
    shutil.rmtree("/home/user/.cache", ignore_errors=True)
    os.symlink(tree, "/home/user/.cache")
    os.symlink(tree, "/tmp/out")
    attack.say("baits", sorted(os.listdir("/workspace")))


def outside(trial):
    api, box = trial.api, trial.id
    statuses = {}
    for name in ("a", "b", "c", "d"):
        for path in (f"/workspace/{name}/evil", f"/workspace/{name}/folder/evil", f"/workspace/{name}/keep"):
            statuses[f"put {path}"] = api.put(box, path, b"evil").status
            statuses[f"get {path}"] = api.get(box, path).status
            statuses[f"delete {path}"] = api.call("DELETE", api.files(box, path=path)).status
        move = {"from": "/workspace/e", "to": f"/workspace/{name}/evil", "overwrite": True}
        statuses[f"move {name}"] = api.call("POST", f"/v1/sandboxes/{box}/files/move", move).status
        made = {"path": f"/workspace/{name}/made"}
        statuses[f"mkdir {name}"] = api.call("POST", f"/v1/sandboxes/{box}/files/directory", made).status
        statuses[f"archive {name}"] = api.call("GET", api.files(box, "/archive", path=f"/workspace/{name}")).status
        where = f"/workspace/{name}"
        statuses[f"kernel {name}"] = api.call("POST", f"/v1/sandboxes/{box}/kernels", {"directory": where + "/folder"}).status
    trial.tried(len(statuses))
    passed = {what: status for what, status in statuses.items() if status < 400}
    trial.equal(passed, {}, "requests that went through a link")
    command = api.call("POST", f"/v1/sandboxes/{box}/commands", {"command": "pwd", "directory": "/workspace/a"})
    trial.check(command.status >= 400 or trial.host.told["tree"] not in command.text, f"a command started in {command.text[:200]}")
    archive = api.call("GET", api.files(box, "/archive", path="/workspace"))
    trial.equal(archive.status, 200, "an archive of the whole")
    trial.equal(api.call("DELETE", api.files(box, path="/workspace/a")).status, 204, "removing a link itself")
