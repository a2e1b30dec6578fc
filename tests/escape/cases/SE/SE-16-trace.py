"""SE-16: Have a request traced back.

Claim: TRACE, which sends a request back, and CONNECT are refused before a value is put in.
Technique: TRACE, TRACK, CONNECT and methods in other case with the placeholder to the bound host.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import os

    field = f"Authorization: Bearer {os.environ['API_KEY']}"
    own = "api.far.test:28443"
    attack.say("methods", {method: attack.status_of(attack.ask_tls("api.far.test", 28443, attack.request(method, "/bad" if method != "CONNECT" else own, own, field))) for method in ("TRACE", "CONNECT")})
    attack.say("unknown", attack.ask_tls("api.far.test", 28443, attack.request("TRACK", "/echo", own, field)))


def outside(trial):
    trial.secret("traced", env="API_KEY")
    trial.sandbox(network={"secrets": ["traced"]})
    trial.run()
    trial.all_refused("methods", ("405", "400", "403"))
    # The far side may know other methods; their answers are searched for the value like all others.
    trial.check(trial.found["unknown"].startswith("HTTP/1.1 "), f"an unknown method: {trial.found['unknown'][:80]}")
    trial.check("/bad" not in trial.far.paths(), f"what arrived: {trial.far.paths()}")
