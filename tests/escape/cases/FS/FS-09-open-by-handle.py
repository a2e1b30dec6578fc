"""FS-09: Open a file of the host by its handle.

Claim: Handles of files can be neither had nor opened.
Technique: name_to_handle_at(2) on / and open_by_handle_at(2) with guessed handles of inode 2, of several types.
Source: "shocker", Docker 2014
Tiers: jail contained
"""


def inside():
    import ctypes
    import os

    handle = ctypes.create_string_buffer(8 + 128)
    handle[0] = 128
    mount = ctypes.c_int()
    results = {"name": attack.raw(303, -100, b"/", handle, ctypes.byref(mount), 0)}
    base = os.open("/", os.O_RDONLY)
    for kind in (1, 2, 0x81, 0xF8):
        guess = ctypes.create_string_buffer(attack.struct.pack("<IiQ", 8, kind, 2) + b"\0" * 120)
        results[f"open {kind:#x}"] = attack.raw(304, base, guess, 0)
    attack.say("calls", results)


def outside(trial):
    trial.all_refused()
