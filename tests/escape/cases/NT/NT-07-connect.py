"""NT-07: Open tunnels that no rule allows.

Claim: A tunnel opens to an allowed host and port and to no other.
Technique: CONNECT to other hosts, to other ports of allowed hosts, without a port, to port 0 and beyond the last.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": ["api.far.test:28443/tls"]}}


def inside():
    targets = ("evil.far.test:28443", "evil.far.test:443", "api.far.test:22", "api.far.test:25", "api.far.test:6379", "api.far.test:443", "api.far.test:28080", "other.far.test:28443")
    attack.say("forbidden", {target: attack.tunnel(target.encode()) for target in targets})
    broken = ("api.far.test", "api.far.test:", "api.far.test:0", "api.far.test:65536", "api.far.test:-1", "api.far.test:28443:28443", ":28443", "api.far.test:+28443", "api.far.test:28443/")
    attack.say("malformed", {target: attack.tunnel(target.encode()) for target in broken})
    stream = attack.tunnel(b"api.far.test:28443")
    attack.say("control", attack.exchange(attack.secure(stream, "api.far.test"), attack.request("GET", "/control", "api.far.test:28443"))[:12])


def outside(trial):
    trial.all_refused("forbidden", ("403",))
    trial.all_refused("malformed", ("400", "403"))
    trial.equal(trial.found["control"], "HTTP/1.1 200", "the allowed tunnel")
    trial.equal(trial.far.paths(), ["/control"], "what arrived")
