"""XS-01: Find another session's variables and files.

Claim: Sessions share nothing, under the same key or another.
Technique: One session sets variables, files and modules; others of the same and of another key look for all of them.
Source: -
Tiers: jail contained
"""

LOOK = "import sys, os, builtins\nprint([n for n in ('secret', 'evilmod') if n in globals() or n in sys.modules], [p for p in ('/workspace', '/tmp', '/home/user', '/dev/shm') if os.path.exists(p + '/f')], hasattr(builtins, 'evil'))"


def inside():
    import builtins
    import sys
    import types

    globals()["secret"] = "mine"
    builtins.evil = "mine"
    sys.modules["evilmod"] = types.ModuleType("evilmod")
    for place in ("/workspace", "/tmp", "/home/user", "/dev/shm"):
        open(place + "/f", "w").write("mine")
    attack.say("set", True)


def outside(trial):
    for fields in ({}, {"interpreter": "fresh"}, {}):
        box = trial.sandbox(**fields)
        trial.equal(trial.ask(LOOK, box.id), "[] [] False", f"a sandbox of the same key {fields}")
    trial.equal(trial.victim._cell(LOOK), "[] [] False", "a sandbox of another key")
