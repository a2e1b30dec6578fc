"""SY-11: Type into a terminal.

Claim: TIOCSTI and its kin are refused, on every descriptor and with every disguise of the number.
Technique: The ioctls on 0 to 3, /dev/tty and a new terminal, plain and with high bits that the kernel ignores, also in a command with a terminal.
Source: CVE-2017-5226, CVE-2019-10063
Tiers: jail contained
"""


def inside():
    import os

    terminal, other = os.openpty()
    letter = attack.ctypes.create_string_buffer(b"x")
    table = {}
    for name, number in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCCONS", 0x541D), ("TIOCSETD", 0x5423)):
        for label, descriptor in (("0", 0), ("1", 1), ("2", 2), ("3", 3), ("ours", other), ("theirs", terminal)):
            for shift in (0, 1 << 32, 0xDEADBEEF << 32):
                table[f"{name} {label} {shift:#x}"] = attack.raw(16, descriptor, number | shift, letter)
    open_ones = {name: result for name, result in table.items() if result not in ("EPERM",)}
    attack.say("tried", len(table))
    attack.say("open", open_ones)
    attack.attempt("tty", lambda: os.open("/dev/tty", os.O_RDWR))


def outside(trial):
    trial.check(trial.found.get("tried", 0) == 72, "too little was tried")
    trial.equal(trial.found.get("open"), {}, "ioctls that were not refused")
    code = "import fcntl; fcntl.ioctl(0, 0x5412, b'x')"
    terminal = {"columns": 80, "rows": 24}
    ran = trial.api.command(trial.id, f'python -c "{code}"', terminal=terminal)
    trial.check("PermissionError" in ran["stdout"], f"on a terminal: {ran['stdout'][-200:]!r}")
