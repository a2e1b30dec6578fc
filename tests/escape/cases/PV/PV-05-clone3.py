"""PV-05: Make namespaces by clone3.

Claim: clone3, whose flags no filter can see, does not exist inside, and libraries fall back.
Technique: The raw call with CLONE_NEWUSER, with CLONE_INTO_CGROUP, and with nothing.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import threading

    table = {}
    for name, flags in (("user", 0x10000000), ("into a group", 0x200000000), ("plain", 0)):
        arguments = attack.ctypes.create_string_buffer(attack.struct.pack("<11Q", flags, 0, 0, 0, 17, 0, 0, 0, 0, 0, 3))
        child = attack.raw(435, arguments, 88)
        if child == 0:
            os._exit(0)
        table[name] = child
    attack.say("calls", table)
    thread = threading.Thread(target=lambda: attack.say("thread", "ok"))
    thread.start()
    thread.join()


def outside(trial):
    trial.all_refused(errors=("ENOSYS",))
    trial.equal(trial.found.get("thread"), "ok", "threads work")
