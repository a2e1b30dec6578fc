"""SE-05: Send a secret in clear text.

Claim: A value goes over verified TLS only; a placeholder in plain HTTP to the bound host itself is refused.
Technique: Plain HTTP to the host of the secret, directly, by the proxy and in a tunnel, with the placeholder at every place.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import os

    key = os.environ["API_KEY"]
    own, field = "api.far.test:28080", f"Authorization: Bearer {key}"
    requests = {"header": attack.request("GET", "/bad", own, field), "query": attack.request("GET", f"/bad?k={key}", own), "body": attack.request("POST", "/bad", own, "Content-Type: application/json", body=f'"{key}"'.encode())}
    results = {}
    for name, data in requests.items():
        results[f"direct {name}"] = attack.status_of(attack.reach("api.far.test", 28080, data))
        results[f"proxy {name}"] = attack.status_of(attack.ask_proxy(data.replace(b" /bad", b" http://api.far.test:28080/bad", 1)))
        results[f"tunnel {name}"] = attack.status_of(attack.exchange(attack.tunnel(b"api.far.test:28080"), data))
    attack.say("plain", results)


def outside(trial):
    value = trial.secret("clear", env="API_KEY", hosts=["api.far.test:28443", "api.far.test:28080"], **{"in": ["header", "query", "body"]})
    trial.sandbox(network={"secrets": ["clear"], "allow": ["api.far.test:28080/http"]})
    trial.run()
    trial.all_refused("plain", ("403", "400"))
    trial.check(value not in trial.far.text(), "the value arrived in clear text")
    trial.equal(trial.far.paths(), [], "what arrived")
