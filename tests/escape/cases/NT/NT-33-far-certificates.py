"""NT-33: Stand in for an allowed host with another certificate.

Claim: Where the connection is read, a host that cannot show who it is gets no request; where it passes through, the client sees the host's own certificate.
Technique: Allowed hosts with self-signed, wrong and expired certificates, intercepted and passed through.
Source: -
Tiers: jail contained
"""

PORTS = (28444, 28445, 28446)
NEW = {"network": {"allow": [{"host": "api.far.test", "ports": list(PORTS), "protocol": "tls", "methods": ["GET"]}, *[f"other.far.test:{port}/tls" for port in PORTS], {"host": "api.far.test", "ports": [28443], "protocol": "tls", "methods": ["GET"]}]}}


def inside():
    ports = (28444, 28445, 28446)
    attack.say("intercepted", {port: attack.ask_tls("api.far.test", port, attack.request("GET", "/bad", f"api.far.test:{port}")) for port in ports})
    attack.say("passed", {port: attack.ask_tls("other.far.test", port, attack.request("GET", "/bad", f"other.far.test:{port}")) for port in ports})
    attack.say("plain", {port: attack.status_of(attack.ask_proxy(attack.request("GET", f"http://api.far.test:{port}/bad", f"api.far.test:{port}"))) for port in ports})
    attack.say("control", attack.status_of(attack.ask_tls("api.far.test", 28443, attack.request("GET", "/control", "api.far.test:28443"))))


def outside(trial):
    for port, answer in trial.found["intercepted"].items():
        trial.check(answer.startswith("HTTP/1.1 502") and "tls_failed" in answer, f"{port}: {answer[:200]}")
    trial.equal(set(trial.found["passed"].values()), {"SSLCertVerificationError"}, "what the client sees")
    trial.all_refused("plain", ("403", "400"))
    trial.equal(trial.found["control"], "200", "a host that shows who it is")
    trial.equal(trial.far.paths(), ["/control"], "what arrived")
