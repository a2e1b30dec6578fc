"""PV-13: Raise resource limits.

Claim: A hard limit can be lowered and never raised; the limits of the init are those of no other process.
Technique: setrlimit and prlimit64 to infinity for each limit, on itself and on the init.
Source: -
Tiers: jail contained
"""


def inside():
    import resource

    table = {}
    infinity = attack.ctypes.create_string_buffer(b"\xff" * 16)
    for number in range(16):
        soft, hard = resource.getrlimit(number)
        if hard == resource.RLIM_INFINITY:
            continue
        table[f"own {number}"] = attack.result_of(lambda: resource.setrlimit(number, (-1, -1)))
        table[f"own {number} by one"] = attack.result_of(lambda: resource.setrlimit(number, (hard + 1, hard + 1)))
        old = attack.ctypes.create_string_buffer(16)
        attack.raw(302, 1, number, 0, old)
        # The init has infinite limits, but no other process inherits them.
        if old.raw[8:] != b"\xff" * 8:
            table[f"init {number}"] = attack.raw(302, 1, number, infinity, 0)
    attack.say("calls", table)


def outside(trial):
    trial.all_refused(errors=("EPERM", "ValueError", "ENOSYS"))
    trial.check(len(trial.found.get("calls", {})) >= 15, "too few limits are set")
