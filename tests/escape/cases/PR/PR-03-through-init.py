"""PR-03: Reach through the sandbox's init.

Claim: The init's memory, files, root and namespaces are closed to the guest.
Technique: Opens and follows everything below /proc/1 and /proc/1/task/1 that leads somewhere.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    results = {}
    for base in ("/proc/1", "/proc/1/task/1"):
        for name in ("root", "cwd", "exe"):
            results[f"{base}/{name}"] = attack.result_of(lambda: os.readlink(f"{base}/{name}"))
            results[f"{base}/{name}/"] = attack.result_of(lambda: os.listdir(f"{base}/{name}/"))
        for name in ("mem", "maps", "environ", "smaps", "pagemap", "auxv", "stack", "syscall", "io", "personality", "patch_state"):
            path = f"{base}/{name}"
            if os.path.lexists(path):
                results[path] = attack.result_of(lambda: os.read(os.open(path, os.O_RDONLY), 10))
        for name in ("fd", "fdinfo", "map_files", "ns"):
            results[f"{base}/{name}"] = attack.result_of(lambda: [os.readlink(f"{base}/{name}/{e}") for e in os.listdir(f"{base}/{name}")] or 1 / 0)
        for name in ("mnt", "user", "pid", "net"):
            results[f"{base}/ns/{name}"] = attack.result_of(lambda: os.open(f"{base}/ns/{name}", os.O_RDONLY))
        results[f"{base}/mem to write"] = attack.result_of(lambda: os.open(f"{base}/mem", os.O_WRONLY))
        results[f"{base}/oom_score_adj"] = attack.result_of(lambda: os.write(os.open(f"{base}/oom_score_adj", os.O_WRONLY), b"-1000"))
    attack.say("opens", results)


def outside(trial):
    # An empty list of descriptors is reported as a division by zero: there is nothing to follow.
    trial.all_refused("opens", errors=("EACCES", "EPERM", "ENOENT", "ZeroDivisionError", "EINVAL", "ENOTDIR"))
