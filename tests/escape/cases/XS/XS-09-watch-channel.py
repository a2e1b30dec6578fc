"""XS-09: Watch another session read.

Claim: No sandbox sees what others read of shared files.
Technique: inotify and fanotify on shared files, and access times before and after another session reads.
Source: measured across bind mounts of one tree
Tiers: jail contained
"""


def inside():
    import os

    attack.calls({"inotify_init": ("inotify_init",), "inotify_init1": ("inotify_init1", 0), "fanotify_init": ("fanotify_init", 0, 0)})
    attack.say("times", [os.stat(path).st_atime_ns for path in (os.__file__, "/etc/passwd", "/bin/sh")])


def outside(trial):
    trial.all_refused()
    before = trial.found.get("times")
    trial.victim._cell("import os\nfor path in (os.__file__, '/etc/passwd', '/bin/sh'): open(path, 'rb').read()")
    trial.run()
    trial.equal(trial.found.get("times"), before, "access times")
