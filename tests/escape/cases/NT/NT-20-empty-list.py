"""NT-20: Leave the list out, empty, or broken.

Claim: No list and an empty list allow nothing; a list that cannot be read is an error and never an empty one.
Technique: Every way to leave rules out at create and at change, and lists of wrong types and unknown fields.
Source: sandbox-runtime CVE-2025-66479
Tiers: jail contained
"""

EMPTY = ({}, {"allow": None}, {"allow": []}, {"mode": "list"}, {"mode": "list", "allow": [], "deny": []}, {"mode": "none"}, {"mode": "none", "allow": ["api.far.test:28080/http"]}, {"allow": ["api.far.test:28080/http"], "deny": ["*.far.test"]}, {"allow": ["api.far.test:28080/http"], "deny": ["api.far.test"]})
BROKEN = ({"allow": {}}, {"allow": "api.far.test"}, {"allow": [None]}, {"allow": [{}]}, {"allow": [[]]}, {"allow": [1]}, {"mode": "all"}, {"mode": ["open"]}, {"allowed": []}, {"allow": [{"host": "api.far.test", "port": 1}]}, {"allow": [{"host": "api.far.test", "methods": "GET"}]}, {"allow": ["api.far.test"] * 5000})


def inside():
    results = [attack.reach("api.far.test", 28080, attack.request("GET", "/bad", "api.far.test:28080")), attack.reach("127.0.0.1", 443, b"x"), attack.reach("1.1.1.1", 443, b"x")]
    try:
        results.append(attack.status_of(attack.ask_proxy(attack.request("GET", "http://api.far.test:28080/bad", "api.far.test:28080"))))
    except OSError as error:
        results.append(type(error).__name__)
    attack.say("results", results)


DRIVEN = True


def outside(trial):
    for network in EMPTY:
        sandbox = trial.sandbox(network=network)
        trial.run(sandbox=sandbox.id)
        name, address, public, proxied = trial.found["results"]
        trial.check(name in ("no such name", "gaierror"), f"{network}: {name}")
        trial.check(address in ("ECONNREFUSED", "ECONNRESET", "", " ECONNRESET"), f"{network}: {address}")
        trial.equal(public, "ENETUNREACH", f"{network}")
        trial.check(proxied in ("403", "ECONNREFUSED"), f"{network}: {proxied}")
    for network in BROKEN:
        answer = trial.api.call("POST", "/v1/sandboxes", {"network": network})
        trial.tried()
        trial.check(answer.status in (400, 422), f"{str(network)[:80]}: {answer.status} {answer.text[:100]}")
        answer = trial.api.call("PUT", f"/v1/sandboxes/{trial.id}/network", network)
        trial.check(answer.status in (400, 422), f"PUT {str(network)[:80]}: {answer.status} {answer.text[:100]}")
    for mode in ("open",):
        answer = trial.api.call("POST", "/v1/sandboxes", {"network": {"mode": mode}})
        trial.equal((answer.status, answer.code), (403, "network_not_offered"), "more than the operator offers")
    trial.equal((trial.far.connections, trial.far.seen), ([], []), "what arrived")
