"""SE-17: Trade a secret for a token.

Claim: A token that the bound host derives from a secret is not the secret: it reaches the code, and the value does not.
Technique: A host that answers with an access token to a request with the secret.
Source: -
Tiers: jail contained; rules with paths keep code from endpoints that give tokens out
"""

DRIVEN = True


def inside():
    import os

    field = f"Authorization: Bearer {os.environ['API_KEY']}"
    own = "api.far.test:28443"
    attack.say("token", attack.ask_tls("api.far.test", 28443, attack.request("POST", "/token", own, field, body=b"grant_type=client_credentials")))


def inside_ruled():
    import os

    field = f"Authorization: Bearer {os.environ['API_KEY']}"
    attack.say("ruled", attack.status_of(attack.ask_tls("api.far.test", 28443, attack.request("POST", "/token", "api.far.test:28443", field))))


def outside(trial):
    value = trial.secret("oauth", env="API_KEY")
    trial.sandbox(network={"secrets": ["oauth"]})
    trial.run()
    trial.check("derived-0123456789" in trial.found["token"] and value not in trial.found["token"], f"{trial.found['token'][:300]}")
    trial.check(value in trial.far.text(), "the value did not arrive")
    rule = {"host": "api.far.test", "ports": [28443], "protocol": "tls", "paths": ["/v1/*"], "secrets": ["oauth"]}
    ruled = trial.sandbox(network={"allow": [rule]})
    trial.run("inside_ruled()", sandbox=ruled.id)
    trial.equal(trial.found["ruled"], "403", "the endpoint behind a rule of paths")
