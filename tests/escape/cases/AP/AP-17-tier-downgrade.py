"""AP-17: Be given less isolation than was asked for.

Claim: A tier that is not there is an error, never a weaker one in silence; the report names the tier.
Technique: Asks for microvm, gvisor, wasm and none; looks at the containment report of every sandbox.
Source: -
Tiers: jail contained
"""


def outside(trial):
    named = [{"tier": tier} for tier in ("microvm", "gvisor", "wasm", "none", "Jail", "jail ", "", ["jail"])]
    for tier in ("microvm", "gvisor", "wasm", "none", "jail", ""):
        named += [{"isolation": tier}, {"backend": tier}, {"limits": {"tier": tier}}]
    for body in named:
        answer = trial.api.call("POST", "/v1/sandboxes", body)
        trial.tried()
        trial.check(answer.status == 400, f"{body}: {answer.status}")
    answer = trial.api.call("POST", "/v1/sandboxes", {"tier": "jail"})
    trial.check(answer.status == 201, f"the tier that there is: {answer.status}")
    trial.equal(answer.json["containment"]["tier"], "jail", "the tier that was asked for")
    trial.api.call("DELETE", f"/v1/sandboxes/{answer.json['id']}")
    _ = trial.id
    trial.equal(trial.sandboxes[0].containment["tier"], "jail", "the tier in the report")
