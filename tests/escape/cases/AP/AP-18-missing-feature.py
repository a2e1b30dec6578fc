"""AP-18: Run where the kernel lacks something.

Claim: Where namespaces cannot be made, no code runs at all, and the reason is said.
Technique: Starts a run inside user namespaces that allow no further user, mount, pid, net, ipc, uts or cgroup namespaces.
Source: -
Tiers: jail contained
"""

CROWDED = False


def outside(trial):
    import subprocess

    from harness.server import as_user

    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SILICA_HOME": str(trial.server.home), "HOME": str(trial.server.home)}
    for kind in ("user", "mnt", "pid", "net", "ipc", "uts"):
        script = f"echo 0 > /proc/sys/user/max_{kind}_namespaces && exec {trial.server.ground.binary} run --template python -c \"print('RAN')\""
        command = [*as_user(trial.server.uid), "unshare", "--user", "--map-root-user", "sh", "-c", script]
        ran = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=120)
        trial.tried()
        trial.check("RAN" not in ran.stdout and ran.returncode not in (0, 1), f"{kind}: {ran.returncode} {ran.stdout!r} {ran.stderr[-200:]!r}")
        trial.check(ran.stderr.strip(), f"{kind}: nothing is said")
