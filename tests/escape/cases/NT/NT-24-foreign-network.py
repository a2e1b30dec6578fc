"""NT-24: Use the network of another sandbox.

Claim: Which sandbox asks is known by the socket alone: nothing it sends gives it another's rules, names or proxy.
Technique: The synthetic addresses that stand for another's names, its proxy's port by every address, its id, key and placeholder in headers and credentials.
Source: -
Tiers: jail contained
"""

NEW = {"network": {"allow": ["other.far.test:28080/http"]}}
DRIVEN = True


def inside(foreign):
    import base64

    basic = base64.b64encode(f"{foreign}:{foreign}".encode()).decode()
    fields = (f"Proxy-Authorization: Basic {basic}", f"X-Sandbox: {foreign}", f"E2b-Sandbox-Id: {foreign}", f"X-Silica-Sandbox: {foreign}", "X-Forwarded-For: 198.18.0.16")
    results = {"get": attack.status_of(attack.ask_proxy(attack.request("GET", "http://api.far.test:28080/bad", "api.far.test:28080", *fields)))}
    for last in range(16, 24):
        results[f"address {last}"] = attack.reach(f"198.18.0.{last}", 28080, attack.request("GET", "/bad", "api.far.test:28080"))[:3]
    for address in ("198.18.0.1", "127.0.0.2", "0.0.0.0", *attack.HOST["addresses"][1:]):
        results[f"proxy {address}"] = attack.status_of(attack.reach(address, 3128, attack.request("GET", "http://api.far.test:28080/bad", "api.far.test:28080", *fields)))
    attack.say("results", results)


def outside(trial):
    victim = trial.server.holder("network victim")
    made = victim.create(template="python", network={"allow": ["api.far.test:28080/http"]})
    trial.finally_do(lambda: victim.delete(made["id"]))
    good = "import urllib.request; print(urllib.request.urlopen('http://api.far.test:28080/good', timeout=10).status)"
    trial.equal(victim.cell(made["id"], good)["stdout"], "200\n", "the owner's request")
    trial.run(f"inside({made['id']!r})")
    trial.check(not [name for name, end in trial.found["results"].items() if end.startswith(("200", "HTTP/1.1 200"))], f"{trial.found['results']}")
    trial.equal(trial.far.paths(), ["/good"], "what arrived")
    trial.equal(victim.want(200, "GET", f"/v1/sandboxes/{made['id']}/network")["usage"]["denials"], 0, "what the owner is charged with")
    for method, path, body in (("GET", "network", None), ("PUT", "network", {"allow": []}), ("GET", "network/connections", None), ("POST", "network/check", {"host": "api.far.test"})):
        trial.tried()
        trial.equal(trial.api.call(method, f"/v1/sandboxes/{made['id']}/{path}", body).status, 404, f"{method} {path} by another key")
    trial.equal(victim.cell(made["id"], good)["stdout"], "200\n", "the owner's request afterwards")
