"""PY-01: Plant start-up files.

Claim: Files that Python, IPython and debuggers run by themselves act in the own sandbox alone.
Technique: sitecustomize, usercustomize, path files, .pythonrc, .pdbrc and IPython start-up files; then restarts, new kernels and new sandboxes.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import site

    word = "import builtins; builtins.planted = True\n"
    folder = site.getusersitepackages()
    for place in (folder, "/home/user/.ipython/profile_default/startup", "/home/user/.config/ipython", "/workspace"):
        os.makedirs(place, exist_ok=True)
    for path in (f"{folder}/sitecustomize.py", f"{folder}/usercustomize.py", "/home/user/.pythonrc", "/home/user/.pdbrc", "/home/user/.ipython/profile_default/startup/00.py", "/workspace/sitecustomize.py"):
        open(path, "w").write(word)
    open(f"{folder}/evil.pth", "w").write(word)
    attack.say("planted", True)


def outside(trial):
    look = "import builtins; print(hasattr(builtins, 'planted'))"
    trial.api.want(200, "POST", f"/v1/sandboxes/{trial.id}/kernels/k1/restart", {})
    trial.ask(look)
    trial.equal(trial.victim._cell(look), "False", "the victim")
    for fields in ({}, {"interpreter": "fresh"}):
        trial.equal(trial.ask(look, trial.sandbox(**fields).id), "False", f"a new sandbox {fields}")
