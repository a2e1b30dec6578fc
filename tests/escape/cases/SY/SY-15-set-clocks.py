"""SY-15: Set the clock.

Claim: The machine's time cannot be changed.
Technique: clock_settime, settimeofday, adjtimex and clock_adjtime, far into the past.
Source: -
Tiers: jail contained
"""


def inside():
    then = attack.ctypes.create_string_buffer(attack.struct.pack("<qq", 86400, 0))
    adjust = attack.ctypes.create_string_buffer(attack.struct.pack("<Ixxxxq", 0x0100, 1) + b"\0" * 200)
    attack.calls({"clock_settime": ("clock_settime", 0, then), "settimeofday": ("settimeofday", then, 0), "adjtimex": ("adjtimex", adjust), "clock_adjtime": ("clock_adjtime", 0, adjust)})


def outside(trial):
    import time

    trial.all_refused()
    trial.check(time.time() > 1_700_000_000, "the host's clock was changed")
