"""FS-01: Read files of the host.

Claim: No file of the host outside its system directories can be read, by any name.
Technique: Opens canaries by their host paths, plain, through /proc/self/root, /proc/self/cwd and dot-dot, and the usual prizes.
Source: -
Tiers: jail contained
"""


def inside():
    results = {}
    for path in attack.HOST["canaries"]:
        for prefix in ("", "/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../../..", "/workspace/../../.."):
            results[prefix + path] = attack.read_some(prefix + path)
    for path in ("/etc/shadow", "/root/.ssh/id_rsa", "/var/run/docker.sock", "/etc/machine-id", "/root", "/var/lib"):
        results[path] = attack.read_some(path)
    attack.say("reads", results)


def outside(trial):
    trial.all_refused("reads", errors=("ENOENT", "EACCES", "EISDIR", "ENXIO"))
