"""SE-07: Lead the bound host's name elsewhere.

Claim: A host that cannot show a certificate of its name gets nothing of a request, and its secret never.
Technique: The name of the secret leads to servers with self-signed, wrong and expired certificates.
Source: -
Tiers: jail contained
"""

DRIVEN = True


def inside():
    import os

    key = os.environ["API_KEY"]
    answers = {port: attack.ask_tls("api.far.test", port, attack.request("POST", "/bad", f"api.far.test:{port}", f"Authorization: Bearer {key}", body=b"data")) for port in (28444, 28445, 28446)}
    attack.say("answers", answers)


def outside(trial):
    value = trial.secret("hijacked", env="API_KEY", hosts=[f"api.far.test:{port}" for port in (28444, 28445, 28446)])
    trial.sandbox(network={"secrets": ["hijacked"]})
    trial.run()
    for port, answer in trial.found["answers"].items():
        trial.check(answer.startswith("HTTP/1.1 502") and "tls_failed" in answer, f"{port}: {answer[:200]}")
    trial.check(trial.far.connections, "no handshake was tried")
    trial.equal(trial.far.seen, [], "what arrived")
    trial.check(value not in trial.far.text(), "the value arrived")
