"""FS-17: Put a program where a process with more rights will run it.

Claim: No directory of PATH, of sys.path outside the user's own, or of the loader can be written, and no process inside has another id.
Technique: Drops fake pgrep, ps and id and fake modules there; looks at the ids of all processes that can be seen.
Source: a code interpreter was rooted through a writable directory on a helper's PATH (2025)
Tiers: jail contained
"""


def inside():
    import os
    import sys

    home = ("/workspace", "/home/user", "/tmp")
    places = os.environ["PATH"].split(":") + sys.path + ["/lib", "/usr/lib", "/etc/ld.so.conf.d", "/usr/local/lib", "/etc"]
    places += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    results = {}
    for place in sorted({place for place in places if place and not place.startswith(home)}):
        for name in ("pgrep", "ps", "id", "sitecustomize.py"):
            results[f"{place}/{name}"] = attack.result_of(lambda p=place, n=name: open(f"{p}/{n}", "x").write("#!/bin/sh\nid > /tmp/ran"))
    attack.say("drops", results)
    ids = sorted({os.stat(f"/proc/{name}").st_uid for name in os.listdir("/proc") if name.isdigit()})
    attack.say("ids", ids)


def outside(trial):
    trial.all_refused("drops", errors=("EROFS", "ENOENT", "ENOTDIR", "EACCES", "FileExistsError", "EEXIST"))
    # No process inside can access the init, so its entries in /proc belong to the user `nobody`.
    trial.check(set(trial.found.get("ids", [])) <= {1000, 65534}, f"ids inside: {trial.found.get('ids')}")
    trial.ask("import subprocess; subprocess.run('ps; id', shell=True, capture_output=True); None")
    trial.equal(trial.ask("import os; print(os.path.exists('/tmp/ran'))"), "False", "a fake program was run")
