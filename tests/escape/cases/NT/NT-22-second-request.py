"""NT-22: Use a connection that was allowed for something else.

Claim: Each request of a connection is judged by itself: its host, its method and its path in normal form.
Technique: Requests in one packet and one after the other, of which some are for other hosts, methods and paths; paths with dots, encoded dots, slashes, NUL, parameters and double encoding.
Source: -
Tiers: jail contained
"""

RULE = {"host": "api.far.test", "methods": ["GET"], "paths": ["/v1/*"]}
NEW = {"network": {"allow": [{**RULE, "ports": [28443], "protocol": "tls"}, {**RULE, "ports": [28080], "protocol": "http"}]}}
TIMEOUT = 60


def inside():
    import re

    for name, port, ask in (("tls", 28443, attack.ask_tls), ("plain", 28080, attack.reach)):
        own = f"api.far.test:{port}"
        line = "{} HTTP/1.1\r\nHost: {}\r\n\r\n"
        sent = [("GET /v1/one", own), ("GET /v1/bad", f"evil.far.test:{port}"), ("GET /v2/bad", own), ("DELETE /v1/bad", own), ("GET /v1/two", own)]
        answer = ask("api.far.test", port, "".join(line.format(*one) for one in sent).encode() + attack.request("GET", "/v1/three", own))
        attack.say(f"{name} statuses", re.findall(r"HTTP/1\.1 (\d\d\d) ", answer))
        paths = ("/v1/../v2/bad", "/v1/%2e%2e/v2/bad", "/v1/.%2e/bad", "//v1/bad", "/v1//../bad", "/v1/..;/bad", "/v1/%252e%252e/bad", "/v1/..%2fbad", "/v1/%5c..%5cbad", "/v1\\..\\bad", "/v1/bad%00", "/v1/%c0%ae%c0%ae/bad", "/V1/bad", "/%761/../bad", "/v1", "/v1?/v1/bad", "/v2/bad?x=/v1/", "/v2/bad#/v1/")
        attack.say(name, {path: attack.status_of(ask("api.far.test", port, attack.request("GET", path, own))) for path in paths})


def outside(trial):
    for name in ("tls", "plain"):
        statuses = trial.found[f"{name} statuses"]
        trial.equal(statuses, ["200", "421", "403", "403", "200", "200"], f"{name} statuses")
        trial.all_refused(name, ("400", "403"))
    trial.equal(sorted(trial.far.paths()), ["/v1/one", "/v1/one", "/v1/three", "/v1/three", "/v1/two", "/v1/two"], "what arrived")
