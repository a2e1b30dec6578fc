"""PV-03: Make a user namespace and be root in it.

Claim: No namespace of any kind can be made inside.
Technique: unshare(2) with each namespace flag, and util-linux's unshare.
Source: with one, CapEff is full inside, and with it most kernel attack surface
Tiers: jail contained
"""


def inside():
    import subprocess

    flags = {"user": 0x10000000, "mnt": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x08000000,
             "uts": 0x04000000, "cgroup": 0x02000000, "time": 0x80}  # fmt: skip
    attack.calls({name: ("unshare", flag) for name, flag in flags.items()})
    ran = subprocess.run(["unshare", "-Ur", "id"], capture_output=True, text=True)
    attack.say("program", [ran.returncode != 0, "uid=0" in ran.stdout])
    attack.say("capabilities", attack.status()["CapEff"])


def outside(trial):
    trial.all_refused()
    trial.equal(trial.found.get("program"), [True, False], "unshare -Ur id")
    trial.equal(trial.found.get("capabilities"), "0" * 16, "capabilities")
