"""AP-19: Break the making of a sandbox half-way.

Claim: A sandbox that cannot be made whole is not made, and no code runs in it.
Technique: The number of namespaces is exhausted at each count, so that the making fails at a different step each time; every step by name is made to fail in the Rust tests (`failing`).
Source: -
Tiers: jail contained
"""

CROWDED = False


def outside(trial):
    import subprocess

    from harness.server import as_user

    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SILICA_HOME": str(trial.server.home), "HOME": str(trial.server.home)}
    ends = {}
    for kind, count in (("mnt", 1), ("pid", 1), ("net", 1), ("ipc", 1), ("uts", 1), ("user", 1), ("cgroup", 0)):
        look = "print('RAN', [l.split()[1] for l in open('/proc/self/status') if l.split(':')[0] in ('NoNewPrivs', 'Seccomp', 'CapEff')])"
        script = f"echo {count} > /proc/sys/user/max_{kind}_namespaces && exec {trial.server.ground.binary} run --template python -c \"{look}\""
        command = [*as_user(trial.server.uid), "unshare", "--user", "--map-root-user", "sh", "-c", script]
        ran = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=120)
        trial.tried()
        ends[f"{kind} {count}"] = ran.returncode
        # Either it is not made, or it is made whole.
        whole = ran.stdout.startswith("RAN ['0000000000000000', '1', '2']")
        trial.check(whole or "RAN" not in ran.stdout, f"{kind} {count}: {ran.stdout!r}")
    trial.check(125 in ends.values(), f"nothing failed: {ends}")
