"""PR-08: Learn paths of the host from groups and mounts.

Claim: Neither groups nor mounts reveal paths of the host or other sandboxes.
Technique: Reads cgroup, mountinfo, mounts and mountstats of itself and looks for the data directory and for sandboxes' ids.
Source: -
Tiers: jail contained
"""


def inside():
    texts = {name: attack.read_some("/proc/self/" + name, 1 << 20) for name in ("cgroup", "mountinfo", "mounts", "mountstats")}
    attack.say("cgroup", sorted({line.split(":", 2)[2] for line in texts["cgroup"].splitlines()}))
    attack.say("texts", texts)


def outside(trial):
    trial.check(set(trial.found.get("cgroup", ["?"])) <= {"/"}, f"groups: {trial.found.get('cgroup')}")
    text = str(trial.found.get("texts"))
    for word in (str(trial.server.home), trial.id, "silica-escape"):
        trial.check(word not in text, f"{word} can be read inside")
    trial.check("workspace" in text, "the mounts were not read")
