"""SE-10: Send an own header in place of an injected one.

Claim: An injected header replaces whatever the guest sent under its name; one arrives, with the operator's value, and nothing of it is inside.
Technique: Own values once, twice, in other case, as a trailer and by HTTP/2, and named in Connection so that it is dropped.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import os
    import socket

    own = "api.far.test:28443"
    ask = lambda *fields: attack.status_of(attack.ask_tls("api.far.test", 28443, attack.request("GET", "/", own, *fields)))
    results = [ask(), ask("Authorization: mine"), ask("Authorization: mine", "authorization: too"), ask("AUTHORIZATION: mine", "Connection: Authorization"), ask("Authorization: "), ask("Authorization : mine")]
    stream = attack.secure(socket.create_connection(("api.far.test", 28443), 10), "api.far.test", ("h2",))
    stream.settimeout(2)
    attack.exchange(stream, attack.H2_START + attack.h2_request(1, own, "/h2", ("authorization", "mine"), ("authorization", "too")))
    attack.say("results", results)
    attack.say("variables", [name for name, value in os.environ.items() if "silica_secret" in value])


def outside(trial):
    value = trial.secret("injected", inject={"header": "Authorization", "value": "Bearer {}"})
    trial.sandbox(network={"secrets": ["injected"]})
    trial.run()
    trial.equal(trial.found["results"][:5], ["200"] * 5, "requests")
    trial.equal(trial.found["variables"], [], "variables with a placeholder")
    trial.check("/h2" in trial.far.paths(), "the request over HTTP/2 did not arrive")
    for one in trial.far.seen:
        sent = [field for name, field in one["headers"] if name == "authorization"]
        trial.equal(sent, [f"Bearer {value}"], f"{one['path']}: the header that arrived")
        trial.check("mine" not in str(one) and "too" not in str(one["headers"]), f"an own value arrived: {one['headers']}")
