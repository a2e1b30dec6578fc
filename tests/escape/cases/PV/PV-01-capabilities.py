"""PV-01: Have a capability.

Claim: A guest has no capability in any set, and cannot get one.
Technique: Reads its sets, then capset(2), ambient capabilities, and an exec of a program that had some.
Source: -
Tiers: jail contained
"""


def inside():
    import ctypes
    import subprocess

    sets = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    attack.say("before", [attack.status()[name] for name in sets])
    header = ctypes.create_string_buffer(attack.struct.pack("<II", 0x20080522, 0))
    attack.call("capset", header, ctypes.create_string_buffer(b"\xff" * 24))
    attack.say("ambient", {str(one): attack.raw(157, 47, 2, one, 0, 0) for one in range(41)})
    words = subprocess.run(["grep", "Cap", "/proc/self/status"], capture_output=True, text=True).stdout.split()
    attack.say("after exec", words[1::2])


def outside(trial):
    trial.equal(trial.found.get("before"), ["0" * 16] * 5, "the sets")
    trial.equal(trial.found.get("after exec"), ["0" * 16] * 5, "the sets after exec")
    trial.refused("capset")
    trial.all_refused("ambient", errors=("EPERM", "ENOSYS", "EINVAL"))
