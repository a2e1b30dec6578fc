"""CT-04: Install a wheel into one's own directory.

Claim: pip installs a local wheel for the user, and it can be imported at once and after a restart.
Technique: A wheel made by hand, pip install --user --no-index, an import in a new interpreter.
Source: a jail that breaks the user's work fails too
Tiers: jail works
"""

TEMPLATE = "code-interpreter"
TIMEOUT = 120
LIMITS = {"cpu_seconds": 60, "wall_seconds": 120}


def inside():
    import glob
    import os
    import subprocess
    import sys
    import zipfile

    with zipfile.ZipFile("tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "answer = 42\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\ntiny-1.0.dist-info/RECORD,,\n")
    environment = dict(os.environ)
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        # A template need not have pip; the interpreter brings one along.
        bundled = glob.glob("/opt/silica/python/lib/python3*/ensurepip/_bundled/pip-*.whl")
        if not bundled:
            attack.say("answer", "absent")
            return
        environment["PYTHONPATH"] = bundled[0]
    for way in (["--user"], ["--target", "/home/user/lib"]):
        command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", *way, "tiny-1.0-py3-none-any.whl"]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True)
        attack.say(way[0], ran.returncode or "ok")
        if ran.returncode:
            attack.say(f"{way[0]} says", (ran.stdout + ran.stderr)[-400:])
    code = "import sys; sys.path.insert(0, '/home/user/lib'); import tiny; print(tiny.answer)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    attack.say("answer", said.stdout.strip())


def outside(trial):
    if trial.found.get("answer") == "absent":
        return
    trial.check("ok" in (trial.found.get("--user"), trial.found.get("--target")), f"pip: {trial.found}")
    trial.equal(trial.found.get("answer"), "42", "the import")
