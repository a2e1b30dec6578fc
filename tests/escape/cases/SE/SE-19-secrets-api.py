"""SE-19: Read secrets by the API.

Claim: A value goes in and never comes out; secrets of a key are its own, and malformed ones are refused.
Technique: Every method on secrets by their owner, another key, an admin and no key; reading back through errors, networks of sandboxes, the audit log and changed hosts.
Source: -
Tiers: jail contained
"""


def outside(trial):
    value = trial.secret("mine", env="API_KEY")
    other = trial.server.holder("another")
    for api, name in ((trial.api, "owner"), (other, "another"), (trial.server.admin, "admin")):
        for method in ("GET", "POST", "PATCH", "HEAD", "OPTIONS"):
            for path in ("/v1/secrets", "/v1/secrets/mine", "/v1/secrets/mine/value", "/v1/secrets/mine?value=true", "/v1/secrets/../secrets/mine"):
                answer = api.call(method, path, {} if method in ("POST", "PATCH") else None)
                trial.tried()
                trial.check(value.encode() not in answer.body and value not in str(answer.headers), f"{name} {method} {path}: the value came back")
                if name != "owner" and path == "/v1/secrets/mine" and method == "GET":
                    trial.equal(answer.status, 404, f"{name} reads it")
    for body in ({}, {"hosts": ["evil.far.test"]}, {"value": value}, {"value": "short", "hosts": ["a.example"]}, {"value": value, "hosts": ["*"]}, {"value": value, "hosts": ["10.0.0.1"]}, {"value": value, "hosts": ["a.example"], "in": ["everywhere"]}, {"value": value + "\r\nX: y", "hosts": ["a.example"]}, {"value": value, "hosts": ["a.example"], "inject": {"header": "Host", "value": "{}"}}, {"value": value, "hosts": ["a.example"], "inject": {"header": "X\r\nY", "value": "{}"}}, {"value": value, "hosts": ["a.example"], "env": "LD_PRELOAD=x"}):
        answer = trial.api.call("PUT", "/v1/secrets/other", body)
        trial.tried()
        trial.check(answer.status in (400, 422), f"{list(body)}: {answer.status} {answer.text[:100]}")
        trial.check(value not in answer.text, f"an error says the value: {list(body)}")
    # To change the hosts one must know the value.
    answer = trial.api.call("PUT", "/v1/secrets/mine", {"hosts": ["evil.far.test:28443"]})
    trial.check(answer.status in (400, 422), f"hosts alone: {answer.status}")
    for network in ({"secrets": ["mine"]}, {"allow": [{"host": "other.far.test", "ports": [28443], "protocol": "tls", "secrets": ["mine"]}]}):
        answer = other.call("POST", "/v1/sandboxes", {"network": network})
        trial.tried()
        trial.check(answer.status in (400, 403, 404), f"another key uses it: {answer.status} {answer.text[:200]}")
    box = trial.sandbox(network={"secrets": ["mine"]}, env={})
    for path in ("", "/network", "/network/connections"):
        trial.check(value not in trial.api.call("GET", f"/v1/sandboxes/{box.id}{path}").text, f"{path} says the value")
    trial.check(value not in str(trial.server.audit()) and value.encode() not in trial.server.log(), "the log says the value")
    trial.equal(trial.api.call("DELETE", "/v1/secrets/mine").status, 204, "its end")
    trial.equal(trial.api.call("GET", "/v1/secrets/mine").status, 404, "after its end")
