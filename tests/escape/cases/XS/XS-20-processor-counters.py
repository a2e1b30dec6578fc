"""XS-20: Read the processor's counters.

Claim: Performance counters cannot be read, by call or by instruction.
Technique: perf_event_open, rdpmc and rdmsr in machine code, each in a child.
Source: -
Tiers: jail contained; caches and clocks are not promised
"""


def inside():
    attributes = attack.ctypes.create_string_buffer(attack.struct.pack("<II", 0, 128) + b"\0" * 120)
    attack.call("perf_event_open", attributes, 0, -1, -1, 0)
    for name, code in (("rdpmc", "31c90f33c3"), ("rdmsr", "b9100000000f32c3"), ("wrmsr", "31c00f30c3"), ("hlt", "f4c3"), ("in", "e460c3"), ("cli", "fac3")):
        attack.say(name, attack.in_child(lambda c=code: attack.machine_code(bytes.fromhex(c))() and 0))


def outside(trial):
    trial.refused("perf_event_open")
    for name in ("rdpmc", "rdmsr", "wrmsr", "hlt", "in", "cli"):
        trial.equal(trial.found.get(name), -11, f"{name} (11 is SIGSEGV)")
