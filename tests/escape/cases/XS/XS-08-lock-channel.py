"""XS-08: Signal by locks on a shared file.

Claim: Locks on files of the template are one's own.
Technique: One session locks files of the template and of the system with flock and record locks; another takes the same locks.
Source: measured across bind mounts of one tree
Tiers: jail contained
"""

LOCK = """
import fcntl, os, sys
held = []
for path in (os.__file__, '/etc/passwd', os.path.realpath(sys.executable), '/bin/sh', '/usr/bin/env'):
    file = open(path); fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB); held.append(file)
    try: fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error: print(path, error)
print(len(held))
"""


def outside(trial):
    one, other = trial.sandbox(), trial.sandbox()
    trial.tried()
    trial.equal(trial.ask(LOCK, one.id), "5", "the first")
    trial.equal(trial.ask(LOCK, other.id), "5", "the second")
    trial.equal(trial.victim._cell(LOCK + "\nheld.clear()"), "5", "the victim")
