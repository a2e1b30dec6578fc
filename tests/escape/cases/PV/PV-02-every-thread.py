"""PV-02: Find a thread that was not locked in.

Claim: Every thread of every process of a sandbox has no_new_privs and a filter, and no capability.
Technique: Starts threads, children, commands and kernels, and reads the status of every task; the host reads them too.
Source: -
Tiers: jail contained
"""


def inside():
    import glob
    import subprocess
    import threading
    import time

    threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
    children = [subprocess.Popen(["sleep", "20"]) for _ in range(3)]
    tasks = {}
    for path in glob.glob("/proc/[0-9]*/task/*/status"):
        fields = dict(line.split(":\t", 1) for line in open(path).read().splitlines() if ":\t" in line)
        tasks[path] = [fields["NoNewPrivs"], fields["Seccomp"], fields["CapEff"], fields["CapBnd"]]
    attack.say("tasks", tasks)


def outside(trial):
    from pathlib import Path

    expected = ["1", "2", "0" * 16, "0" * 16]
    tasks = trial.found.get("tasks", {})
    trial.check(len(tasks) >= 5 and all(one == expected for one in tasks.values()), f"tasks: {tasks}")
    trial.api.want(201, "POST", f"/v1/sandboxes/{trial.id}/kernels", {})
    trial.api.want(202, "POST", f"/v1/sandboxes/{trial.id}/commands", {"command": "sleep 20", "background": True})
    seen = 0
    for process in trial.inhabitants():
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            found = [fields[name].strip() for name in ("NoNewPrivs", "Seccomp", "CapEff", "CapBnd")]
            seen += 1
            trial.check(found == expected, f"{process.name}: {found}")
    trial.check(seen >= 6, f"only {seen} tasks were seen from outside")
