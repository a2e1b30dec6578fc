"""SY-04: Go round the filter by io_uring.

Claim: io_uring, which makes calls that no filter sees, is not there.
Technique: io_uring_setup, enter and register by number.
Source: it can open files and make sockets
Tiers: jail contained
"""


def inside():
    parameters = attack.ctypes.create_string_buffer(120)
    attack.calls({"setup": ("io_uring_setup", 8, parameters), "setup 1": ("io_uring_setup", 1, parameters),
                  "enter": ("io_uring_enter", 0, 1, 0, 0, 0, 0), "register": ("io_uring_register", -1, 0, 0, 0),
                  "aio": ("io_setup", 8, parameters)})  # fmt: skip


def outside(trial):
    trial.all_refused()
