"""PR-09: Read the host's network tables.

Claim: The network a guest sees is an empty loopback of its own.
Technique: Reads the tables below /proc/self/net and looks for the host's listeners and interfaces in them.
Source: -
Tiers: jail contained
"""


def inside():
    texts = {name: attack.read_some("/proc/self/net/" + name, 1 << 20) for name in ("tcp", "tcp6", "udp", "unix", "dev", "arp", "route", "if_inet6", "packet", "netlink", "wireless")}
    attack.say("interfaces", [line.split(":")[0].strip() for line in texts["dev"].splitlines() if ":" in line])
    attack.say("texts", texts)


def outside(trial):
    trial.equal(trial.found.get("interfaces"), ["lo"], "interfaces")
    text = str(trial.found.get("texts"))
    told = trial.host.told
    for word in (f":{told['tcp']:04X}", f":{told['udp']:04X}", told["word"], f":{trial.server.address[1]:04X}"):
        trial.check(word not in text, f"{word} of the host can be read inside")
