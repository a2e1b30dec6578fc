"""PR-14: Read how many connections and packets the machine has.

Claim: No table below /proc/self/net shows numbers of the whole machine.
Technique: Reads the tables that the kernel fills with the machine's own numbers in every network namespace, of its own and of its first process; changes their mode; looks into each thread's directory.
Source: -
Tiers: jail contained; not without root, where the guest's user owns them
"""

USERS = ("root",)

MACHINE_WIDE = ("sockstat", "sockstat6", "protocols", "softnet_stat", "rt_acct", "stat/rt_cache", "stat/nf_conntrack")


def inside():
    import os

    names = ("sockstat", "sockstat6", "protocols", "softnet_stat", "rt_acct", "stat/rt_cache", "stat/nf_conntrack")
    places = ("/proc/self/net", "/proc/1/net", "/proc/thread-self/net", f"/proc/self/task/{os.getpid()}/net")
    for place in places:
        for name in names:
            attack.attempt(f"read {place}/{name}", lambda: open(f"{place}/{name}").read())
            attack.attempt(f"chmod {place}/{name}", lambda: os.chmod(f"{place}/{name}", 0o444))
    attack.say("dev", "lo:" in open("/proc/self/net/dev").read())


def outside(trial):
    tried = [name for name in trial.found if name.startswith(("read ", "chmod "))]
    trial.equal(len(tried), 4 * 2 * len(MACHINE_WIDE), "attempts")
    trial.refused(*tried, errors=("EACCES", "EPERM", "ENOENT"))
    trial.refused("read /proc/self/net/sockstat", errors=("EACCES",))
    trial.equal(trial.found.get("dev"), True, "the guest's own interface can be read")
