"""AP-17: Be given less isolation than was asked for.

Claim: A tier that is not there is an error, never a weaker one in silence; the report names the tier.
Technique: Asks for microvm, gvisor, wasm and none; looks at the containment report of every sandbox.
Source: -
Tiers: jail contained
"""


def outside(trial):
    for tier in ("microvm", "gvisor", "wasm", "none", "jail", ""):
        for body in ({"tier": tier}, {"isolation": tier}, {"backend": tier}, {"limits": {"tier": tier}}):
            answer = trial.api.call("POST", "/v1/sandboxes", body)
            trial.tried()
            trial.check(answer.status == 400, f"{body}: {answer.status}")
    _ = trial.id
    trial.equal(trial.sandboxes[0].containment["tier"], "jail", "the tier in the report")
