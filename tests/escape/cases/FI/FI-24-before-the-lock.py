"""FI-24: Run before the sandbox is closed.

Claim: At the first instruction that a user can influence, everything is locked.
Technique: Start-up files, path files and variables that run early, in a restarted kernel, a second kernel and a command; each notes what it finds of its own locks.
Source: dify-sandbox ran a preload field before its filter
Tiers: jail contained
"""


def inside():
    import os
    import site

    note = "import json;open('/tmp/note','a').write(json.dumps([l.split()[1] for l in open('/proc/self/status') if l.split(':')[0] in ('NoNewPrivs','Seccomp','CapEff','Uid')])+'\\n')\n"
    places = ["/workspace", "/home/user", "/tmp", site.getusersitepackages()]
    os.makedirs(places[-1], exist_ok=True)
    for place in places:
        for name in ("sitecustomize.py", "usercustomize.py", "evil.py", ".pythonrc"):
            open(f"{place}/{name}", "w").write(note)
        open(f"{place}/evil.pth", "w").write("import evil\n")
    attack.say("planted", len(places))


def outside(trial):
    import json

    env = {"PYTHONPATH": "/workspace", "PYTHONSTARTUP": "/workspace/evil.py", "PYTHONINSPECT": "1", "PYTHONHOME": ""}
    base = f"/v1/sandboxes/{trial.id}"
    trial.api.call("POST", f"{base}/kernels/k1/restart", {})
    second = trial.api.call("POST", f"{base}/kernels", {"env": env, "directory": "/workspace"})
    trial.check(second.status == 201, f"a second kernel: {second.status}")
    fresh = trial.sandbox(interpreter="fresh", env=env)
    trial.ask("print(1)", fresh.id)
    trial.api.command(trial.id, "python -c 'print(1)'; true", env={"PYTHONPATH": "/workspace"})
    notes = trial.ask("import os; print(open('/tmp/note').read() if os.path.exists('/tmp/note') else '')").splitlines()
    trial.check(notes, "nothing that was planted ever ran")
    for note in notes:
        trial.equal(json.loads(note), ["1000", "0" * 16, "1", "2"], "at the first instruction")
