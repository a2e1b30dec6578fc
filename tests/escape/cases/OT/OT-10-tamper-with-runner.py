"""OT-10: Tamper with our code in the sandbox.

Claim: The guest's side holds no control: with all of it replaced limits, cuts and records are as before.
Technique: Patches json, print, the display hook and every method of the runner's modules, lifts its limits, then floods and loops.
Source: -
Tiers: jail contained
"""

ENDS = ("timed_out", "disconnected", "crashed", "vanished")
TIMEOUT = 1


def inside():
    import gc
    import sys

    patched = 0
    for name, module in list(sys.modules.items()):
        if "silica_guest" in name or name in ("wire", "kernel", "bundles"):
            for attribute in dir(module):
                value = getattr(module, attribute)
                if isinstance(value, int) and attribute.isupper():
                    setattr(module, attribute, 1 << 60)
                    patched += 1
    for thing in gc.get_objects():
        if type(thing).__module__.startswith("silica_guest"):
            for attribute in ("results_max", "result_bytes_max"):
                if hasattr(thing, attribute):
                    setattr(thing, attribute, 1 << 60)
                    patched += 1
    attack.say("patched", patched)
    sys.settrace(lambda *_: None)
    sys.displayhook = sys.excepthook = lambda *_: None
    import os

    while True:
        os.write(2, b"x" * 65536)


def outside(trial):
    trial.check(trial.found.get("patched", 0) > 0, "there was nothing to patch")
    trial.check(len(trial.cell["stderr"]) <= 80_000, "the output's limit is gone")
    trial.check(trial.cell["truncated"]["stderr"] > 0, "the cut is not told")
    listing = trial.server.admin.call("GET", f"/v1/audit?sandbox={trial.id}")
    trial.check(trial.id in listing.text, "the audit log does not know of it")
