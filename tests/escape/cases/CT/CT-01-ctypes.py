"""CT-01: Native code through ctypes.

Claim: Native code runs, and gains nothing.
Technique: Calls the C library, maps memory that can be run, calls back into Python; then asks for what it must not get.
Source: a jail that breaks the user's work fails too
Tiers: jail works
"""


def inside():
    import ctypes

    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))(lambda a, b: a[0] - b[0])
    values = (ctypes.c_int * 5)(5, 3, 1, 4, 2)
    attack.libc.qsort(values, 5, 4, compare)
    attack.say("sorted", list(values))
    attack.say("code", attack.machine_code(bytes.fromhex("b82a000000c3"))())
    attack.calls({"mount": ("mount", b"none", b"/tmp", b"tmpfs", 0, 0), "setuid": ("setuid", 0)})


def outside(trial):
    trial.equal(trial.found.get("sorted"), [1, 2, 3, 4, 5], "qsort")
    trial.equal(trial.found.get("code"), 42, "machine code")
    trial.all_refused()
