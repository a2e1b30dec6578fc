"""SY-10: Change a file that sandboxes share.

Claim: What one sandbox does to a file of the template no other sandbox and not the host ever sees.
Technique: Maps shared files privately and writes, tries to map them shared, madvise, fallocate and truncate; another sandbox and the host hash them before and after.
Source: every page-cache write bug
Tiers: jail contained
"""

HASH = """
import hashlib, os, sys
total = hashlib.sha256()
for path in ('/etc/passwd', os.path.realpath(sys.executable), os.__file__, '/bin/sh'):
    total.update(open(path, 'rb').read())
print(total.hexdigest())
"""


def inside():
    import fcntl
    import mmap
    import os
    import sys

    results = {}
    for path in ("/etc/passwd", os.path.realpath(sys.executable), os.__file__, "/bin/sh"):
        descriptor = os.open(path, os.O_RDONLY)
        size = min(4096, os.fstat(descriptor).st_size)
        private = mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        private[:8] = b"OVERRIDE"
        results[f"{path} shared"] = attack.result_of(lambda: mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE))
        results[f"{path} fallocate"] = attack.result_of(lambda: os.posix_fallocate(descriptor, 0, 4096))
        results[f"{path} truncate"] = attack.result_of(lambda: os.ftruncate(descriptor, 0))
        results[f"{path} write"] = attack.result_of(lambda: os.pwrite(descriptor, b"x", 0))
        results[f"{path} open"] = attack.result_of(lambda: os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR))
        results[f"{path} immutable"] = attack.result_of(lambda: fcntl.ioctl(descriptor, 0x40086602, b"\0" * 8))
    attack.say("writes", results)
    attack.say("private", private[:8] == b"OVERRIDE")


DRIVEN = True


def outside(trial):
    before = trial.victim._cell(HASH)
    cell = trial.run()
    trial.equal(cell["outcome"], "ok", "the attack's end")
    trial.all_refused("writes", errors=("EACCES", "EBADF", "EINVAL", "EROFS", "EPERM", "ENOTTY", "EOPNOTSUPP", "ENOTSUP"))
    trial.equal(trial.found.get("private"), True, "the private page was written")
    trial.equal(trial.victim._cell(HASH), before, "what another sandbox reads")
    trial.equal(trial.ask(HASH), before, "what the attacker's sandbox reads")
