"""PY-02: Install a package that attacks.

Claim: What runs while a package is installed runs in the sandbox like all else.
Technique: pip installs a source package whose setup.py reads host files, opens sockets and writes outside, into the user's own directory.
Source: -
Tiers: jail contained
"""

TEMPLATE = "code-interpreter"
TIMEOUT = 120
LIMITS = {"cpu_seconds": 120, "wall_seconds": 120, "disk_bytes": 64 << 20}


def inside():
    import os
    import subprocess
    import sys

    os.makedirs("pkg/evil")
    open("pkg/evil/__init__.py", "w").write("x = 1\n")
    canary = attack.HOST["canaries"][0]
    open("pkg/setup.py", "w").write(f"""
import os, socket
notes = open('/tmp/notes', 'a')
for act in (lambda: open({canary!r}).read(), lambda: open('/etc/evil', 'w'), lambda: socket.create_connection(('127.0.0.1', {attack.HOST['tcp']}), 2), lambda: os.setuid(0)):
    try: act(); notes.write('ok\\n')
    except Exception as error: notes.write(type(error).__name__ + '\\n')
notes.flush()
from setuptools import setup
setup(name='evil', version='1', packages=['evil'])
""")
    command = [sys.executable, "-m", "pip", "install", "--user", "--no-index", "--no-build-isolation", "--no-deps", "./pkg"]
    ran = subprocess.run(command, capture_output=True, text=True)
    if not os.path.exists("/tmp/notes"):
        # A template without pip or setuptools: the file is run as pip would run it.
        subprocess.run([sys.executable, "setup.py", "--version"], cwd="pkg", capture_output=True)
    attack.say("notes", open("/tmp/notes").read().split())
    attack.say("pip", ran.returncode)


def outside(trial):
    notes = trial.found.get("notes", [])
    trial.check(len(notes) >= 4 and "ok" not in notes, f"what setup.py could do: {notes}")
