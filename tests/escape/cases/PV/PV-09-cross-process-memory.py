"""PV-09: Read and write other processes' memory.

Claim: No call reaches another process's memory or descriptors.
Technique: process_vm_readv and writev, pidfd_getfd, kcmp, process_madvise on the init and a child, and /proc/1/mem.
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
    buffer = attack.ctypes.create_string_buffer(64)
    vector = attack.ctypes.create_string_buffer(attack.struct.pack("<QQ", attack.ctypes.addressof(buffer), 64))
    table = {}
    for name, pid in (("init", 1), ("child", child)):
        pidfd = attack.raw(434, pid, 0)
        table |= {f"readv {name}": attack.raw(310, pid, vector, 1, vector, 1, 0),
                  f"writev {name}": attack.raw(311, pid, vector, 1, vector, 1, 0),
                  f"kcmp {name}": attack.raw(312, pid, os.getpid(), 0, 0, 0)}  # fmt: skip
        if isinstance(pidfd, int):
            table[f"getfd {name}"] = attack.raw(438, pidfd, 0, 0)
            table[f"madvise {name}"] = attack.raw(440, pidfd, vector, 1, 21, 0)
    attack.say("calls", table)
    attack.attempt("mem", lambda: os.open("/proc/1/mem", os.O_RDWR))
    os.kill(child, 9)
    os.waitpid(child, 0)


def outside(trial):
    trial.all_refused()
    trial.refused("mem", errors=("EACCES", "EPERM"))
