"""PY-06: Poison configuration files.

Claim: Configuration in a home directory is of that sandbox alone, and never the server's.
Technique: matplotlibrc, pip.conf, .netrc, .gitconfig, silica.toml and policies in every place; then new sandboxes and a look at the server's configuration.
Source: configuration in workspaces that agents obeyed
Tiers: jail contained
"""


def inside():
    import os

    planted = 0
    for place in ("/home/user", "/workspace", "/tmp"):
        for name in (".config/matplotlib/matplotlibrc", ".config/pip/pip.conf", ".netrc", ".npmrc", ".gitconfig", "silica.toml", ".silica/policy.toml", ".mcp.json", ".config/silica/silica.toml", ".env"):
            path = os.path.join(place, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").write('listen = "0.0.0.0:1"\n[core]\nfsmonitor = touch /tmp/evil\n')
            planted += 1
    attack.say("planted", planted)


def outside(trial):
    trial.equal(trial.found.get("planted"), 30, "files")
    box = trial.sandbox()
    look = "import os; print(sorted(os.listdir('/home/user')), sorted(os.listdir('/workspace')), sorted(os.listdir('/tmp')))"
    trial.equal(trial.ask(look, box.id), "[] [] []", "a new sandbox")
    trial.equal(trial.api.call("GET", "/healthz").status, 200, "the server")
