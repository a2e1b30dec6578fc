"""PY-07: Climb through the language.

Claim: The tricks that break sandboxes made of Python all work here, and gain nothing: they are no boundary.
Technique: Subclasses of object, frames, code objects, ctypes writing to memory, exec, os.system.
Source: CVE-2025-5120, CVE-2025-9959 (smolagents), CVE-2023-36258 and many others
Tiers: jail contained
"""


def inside():
    import ctypes
    import os
    import sys

    classes = ().__class__.__base__.__subclasses__()
    popen = [one for one in classes if one.__name__ == "Popen"]
    frame = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
    number = 12345
    ctypes.c_long.from_address(id(number) + 24).value = 54321
    scope = {}
    exec("import os; said = os.popen('id -u').read().strip()", scope)
    attack.say("tricks", [len(classes) > 100, bool(popen) or "subprocess" not in sys.modules, bool(frame.f_globals), scope["said"]])
    attack.say("shell", os.system("id > /tmp/who"))
    attack.say("canary", attack.read_some(attack.HOST["canaries"][0]))


def outside(trial):
    trial.equal(trial.found.get("tricks"), [True, True, True, "1000"], "the tricks")
    trial.equal(trial.found.get("shell"), 0, "a shell")
    trial.refused("canary", errors=("ENOENT", "EACCES"))
