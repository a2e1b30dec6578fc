"""SY-12: Use ioctls of file systems, devices and consoles.

Claim: None of them does anything inside.
Technique: FS_IOC_SETFLAGS, FIFREEZE, FITRIM, FIBMAP, loop, tun, keyboard, block and ext4 ioctls on files, directories, sockets and devices.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import socket

    numbers = {"SETFLAGS": 0x40086602, "FSSETXATTR": 0x401C5820, "FIFREEZE": 0xC0045877, "FITHAW": 0xC0045878, "FITRIM": 0xC0185879, "FIBMAP": 1,
               "LOOP_SET_FD": 0x4C00, "LOOP_CTL_ADD": 0x4C80, "TUNSETIFF": 0x400454CA, "KDSKBENT": 0x4B47, "BLKROSET": 0x125D, "EXT4_SWAP_BOOT": 0x6611,
               "FICLONE": 0x40049409, "VT_ACTIVATE": 0x5606, "RNDADDENTROPY": 0x40085203, "RNDCLEARPOOL": 0x5206,
               "SIOCSIFADDR": 0x8916, "SIOCSIFFLAGS": 0x8914, "SIOCADDRT": 0x890B, "SIOCETHTOOL": 0x8946, "SIOCSIFNAME": 0x8923}  # fmt: skip
    open("own", "w").write("x")
    things = {"own": os.open("own", os.O_RDWR), "root": os.open("/", os.O_RDONLY), "null": os.open("/dev/null", os.O_RDWR),
              "random": os.open("/dev/urandom", os.O_RDWR), "shell": os.open("/bin/sh", os.O_RDONLY), "socket": socket.socket().fileno()}  # fmt: skip
    keep = socket.socket()
    things["socket"] = keep.fileno()
    table = {}
    for name, number in numbers.items():
        for label, descriptor in things.items():
            argument = attack.ctypes.create_string_buffer(b"lo" + b"\0" * 62)
            table[f"{name} {label}"] = attack.raw(16, descriptor, number, argument)
    took = {name: result for name, result in table.items() if isinstance(result, int)}
    attack.say("tried", len(table))
    attack.say("took effect", took)


def outside(trial):
    trial.check(trial.found.get("tried", 0) > 100, "too little was tried")
    took = trial.found.get("took effect", {"?": 0})
    # Flags of one's own file on one's own tmpfs are one's own.
    trial.check(all(name.endswith(" own") for name in took), f"took effect: {took}")
