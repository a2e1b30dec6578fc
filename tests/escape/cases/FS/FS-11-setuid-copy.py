"""FS-11: Make a copy of a shell set-user-id.

Claim: Set-id bits mean nothing inside.
Technique: Copies a shell, gives it modes 6755, runs it with -p and asks for its ids.
Source: -
Tiers: jail contained
"""


def inside():
    import os
    import shutil
    import subprocess

    results = {}
    for place in ("/workspace", "/tmp", "/dev/shm"):
        copy = place + "/shell"
        shutil.copy("/bin/sh", copy)
        os.chmod(copy, 0o6755)
        said = subprocess.run([copy, "-p", "-c", "grep -E '^(Uid|Gid|CapEff|NoNewPrivs)' /proc/self/status"], capture_output=True, text=True)
        results[place] = [said.returncode, said.stdout.split()]
    attack.say("ran", results)
    attack.say("ids", [os.getresuid(), os.getresgid()])


def outside(trial):
    trial.equal(trial.found.get("ids"), [[1000] * 3] * 2, "ids")
    for place, (code, words) in trial.found.get("ran", {}).items():
        # A place from which nothing can be run is as good.
        held = code != 0 or (words.count("1000") == 8 and "0000000000000000" in words)
        trial.check(held, f"{place}: {code} {words}")
