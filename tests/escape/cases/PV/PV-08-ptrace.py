"""PV-08: Trace processes.

Claim: Nothing can be traced, not even one's own child.
Technique: PTRACE_TRACEME, ATTACH and SEIZE on the init, on a child and on the kernel's parent number.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import time

    child = os.fork()
    if child == 0:
        time.sleep(20)
        os._exit(0)
    attack.calls(
        {
            "traceme": ("ptrace", 0, 0, 0, 0),
            "attach init": ("ptrace", 16, 1, 0, 0),
            "seize init": ("ptrace", 0x4206, 1, 0, 0),
            "attach child": ("ptrace", 16, child, 0, 0),
            "seize child": ("ptrace", 0x4206, child, 0, 0x100000),
            "attach parent": ("ptrace", 16, os.getppid(), 0, 0),
            "get syscall info": ("ptrace", 0x420E, child, 64, 0),
        }
    )
    os.kill(child, 9)
    os.waitpid(child, 0)


def outside(trial):
    trial.all_refused()
