"""PV-07: Become root by asking.

Claim: Ids cannot be changed, and there is no id 0 inside to become.
Technique: Every call that sets ids or groups, to 0 and to the overflow ids, and newgrp, su and sudo where present.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import shutil
    import subprocess

    table = {}
    for value in (0, 1, 65534):
        table |= {f"setuid {value}": attack.raw(105, value), f"setgid {value}": attack.raw(106, value),
                  f"setreuid {value}": attack.raw(113, value, value), f"setresuid {value}": attack.raw(117, value, value, value),
                  f"setresgid {value}": attack.raw(119, value, value, value)}  # fmt: skip
    groups = (attack.ctypes.c_uint * 1)(0)
    table["setgroups"] = attack.raw(116, 1, groups)
    attack.say("calls", table)
    attack.raw(122, 0)
    programs = {}
    for words in (["su", "-c", "id -u"], ["newgrp"], ["sudo", "-n", "id", "-u"]):
        if shutil.which(words[0]):
            ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            programs[words[0]] = "ok" if ran.stdout.strip() == "0" else "EPERM"
    attack.say("programs", programs)
    attack.say("ids", [*os.getresuid(), *os.getresgid(), os.getgroups(), attack.status()["Uid"].split()[3]])


def outside(trial):
    trial.all_refused()
    trial.equal(trial.found.get("ids"), [1000] * 6 + [[], "1000"], "ids")
    trial.check("ok" not in trial.found.get("programs", {}).values(), f"programs: {trial.found.get('programs')}")
