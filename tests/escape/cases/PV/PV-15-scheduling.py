"""PV-15: Get ahead of others by scheduling.

Claim: No real-time class, no higher priority, no pinning.
Technique: sched_setscheduler, sched_setattr, sched_setaffinity, ioprio_set and nice below zero.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    parameter = attack.ctypes.create_string_buffer(attack.struct.pack("<I", 50))
    attributes = attack.ctypes.create_string_buffer(attack.struct.pack("<IIQiIQQQ", 48, 1, 0, 0, 50, 0, 0, 0))
    mask = attack.ctypes.create_string_buffer(b"\xff" * 8)
    attack.calls(
        {
            "fifo": ("sched_setscheduler", 0, 1, parameter),
            "round robin": ("sched_setscheduler", 0, 2, parameter),
            "parameters": ("sched_setparam", 0, parameter),
            "attributes": ("sched_setattr", 0, attributes, 0),
            "deadline": ("sched_setattr", 0, attack.ctypes.create_string_buffer(attack.struct.pack("<IIQiIQQQ", 48, 6, 0, 0, 0, 10**6, 10**7, 10**7)), 0),
            "affinity": ("sched_setaffinity", 0, 8, mask),
            "io": ("ioprio_set", 1, 0, 1 << 13),
        }
    )
    attack.attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
    attack.say("now", [os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)])


def outside(trial):
    trial.all_refused()
    trial.refused("nice", errors=("EACCES", "EPERM"))
    trial.check(trial.found.get("now", [1])[0] == 0 and trial.found["now"][1] >= 0, f"now: {trial.found.get('now')}")
