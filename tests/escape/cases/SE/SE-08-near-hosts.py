"""SE-08: Use a secret at a host that is nearly the bound one.

Claim: A secret is bound to a host and a port; names below it, beside it and other ports get nothing.
Technique: The placeholder to sub-domains, parents, look-alikes and other ports of the bound host, all allowed and read.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import os

    key = os.environ["API_KEY"]
    results = {}
    for host, port in (("sub.api.far.test", 28443), ("other.far.test", 28443), ("wild.far.test", 28443), ("api.far.test", 28444), ("a.wild.far.test", 28443)):
        own = f"{host}:{port}"
        results[own] = attack.status_of(attack.ask_tls(host, port, attack.request("GET", "/bad", own, f"Authorization: Bearer {key}")))
    own = "api.far.test:28443"
    results["host of another"] = attack.status_of(attack.ask_tls("other.far.test", 28443, attack.request("GET", "/bad", own, f"Authorization: Bearer {key}")))
    attack.say("results", results)
    attack.say("control", attack.status_of(attack.ask_tls("api.far.test", 28443, attack.request("GET", "/control", own, f"Authorization: Bearer {key}"))))


def outside(trial):
    value = trial.secret("near", env="API_KEY")
    read = {"protocol": "tls", "methods": ["GET"]}
    allow = [{"host": host, "ports": [28443], **read} for host in ("sub.api.far.test", "other.far.test", "wild.far.test", "*.wild.far.test")]
    allow.append({"host": "api.far.test", "ports": [28444], **read})
    trial.sandbox(network={"secrets": ["near"], "allow": allow})
    trial.run()
    trial.all_refused("results", ("403", "421"))
    trial.equal(trial.found["control"], "200", "the bound host")
    trial.equal([one["path"] for one in trial.far.seen if value in str(one)], ["/control"], "requests with the value")
