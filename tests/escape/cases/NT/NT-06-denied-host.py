"""NT-06: Ask the proxy for a host that no rule names.

Claim: The answer is a 403 that says so for programs; nothing is connected, and the audit log says what was wanted.
Technique: Requests with whole URLs, by name and by address, with and without a body.
Source: -
Tiers: jail contained
"""

from harness.trial import eventually

NEW = {"network": {"allow": ["api.far.test:28080/http"]}}


def inside():
    answers = {}
    for url, host in (("http://evil.far.test:28080/x", "evil.far.test:28080"), ("http://evil.far.test/", "evil.far.test"), ("http://10.1.2.3/", "10.1.2.3"), ("http://api.far.test/", "api.far.test")):
        answers[url] = attack.ask_proxy(attack.request("POST", url, host, body=b"data"))
    attack.say("answers", answers)
    attack.say("control", attack.status_of(attack.ask_proxy(attack.request("GET", "http://api.far.test:28080/", "api.far.test:28080"))))


def outside(trial):
    for url, answer in trial.found["answers"].items():
        trial.check(answer.startswith("HTTP/1.1 403"), f"{url}: {answer[:60]}")
        trial.check('"code":"egress_not_allowed"' in answer and "x-silica-egress: denied" in answer.lower(), f"{url}: {answer[-300:]}")
    trial.equal(trial.found["control"], "200", "the allowed host")
    trial.equal(trial.far.paths(), ["/"], "what arrived")
    denied = {(one["host"], one["code"]) for one in trial.cell["network"]["denied"]}
    trial.check(any(host.startswith("evil.far.test") for host, _ in denied), f"the cell says {denied}")
    trial.check(eventually(lambda: trial.notes("connection_denied"), 5), "the audit log has no record")
