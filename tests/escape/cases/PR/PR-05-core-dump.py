"""PR-05: Have the host's core handler run.

Claim: A crash leaves no core file, and no program on the host is notified of it.
Technique: Raises the limit on core files, then dies by SIGSEGV, SIGABRT and SIGQUIT in a child that may be dumped.
Source: handlers named in core_pattern run on the host as root
Tiers: jail contained
"""


def inside():
    import glob
    import os
    import resource

    attack.attempt("raise", lambda: resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)))
    attack.say("limit", resource.getrlimit(resource.RLIMIT_CORE))

    def die(signal):
        attack.libc.prctl(4, 1, 0, 0, 0)
        os.kill(os.getpid(), signal)

    attack.say("ends", [attack.in_child(lambda s=s: die(s)) for s in (11, 6, 3)])
    attack.say("cores", glob.glob("/workspace/core*") + glob.glob("/tmp/core*"))


def outside(trial):
    trial.refused("raise", errors=("EPERM", "ValueError"))
    trial.equal(trial.found.get("limit"), [0, 0], "the limit")
    trial.equal(trial.found.get("ends"), [-11, -6, -3], "the ends")
    trial.equal(trial.found.get("cores"), [], "core files")
