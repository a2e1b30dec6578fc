"""PA-07: Use an approval twice.

Claim: An approval is used once, by the cell it was given for; after its end it is worth nothing.
Technique: Decides twice, both ways; decides for a sandbox that has ended; uses the id elsewhere.
Source: -
Tiers: jail contained
"""

ASKS = 'name = "asks"\n[[rule]]\nid = "x"\nkind = "call"\nseverity = "low"\naction = "ask"\nnames = ["os.remove"]\nwhy = "{name} removes"\n'


def outside(trial):
    trial.finally_do(trial.deny_waiting)
    def ask(box, word):
        code = f"import os; open('x', 'w').close(); os.remove('x'); print({word!r})"
        cell = trial.api.want(202, "POST", f"/v1/sandboxes/{box}/cells", {"code": code, "policy": ASKS})["id"]
        listed = trial.server.admin.want(200, "GET", "/v1/approvals")["approvals"]
        return cell, next(one["id"] for one in listed if word in one["code"])

    decide = lambda identity, way: trial.server.admin.call("POST", f"/v1/approvals/{identity}/{way}", {"reason": "x"})
    cell, first = ask(trial.id, "word-one")
    trial.equal(decide(first, "approve").status, 200, "once")
    for way in ("approve", "deny"):
        answer = decide(first, way)
        trial.tried()
        trial.equal((answer.status, answer.code), (409, "already_decided"), f"{way} again")
    trial.equal(trial.api.want(200, "GET", f"/v1/sandboxes/{trial.id}/cells/{cell}?wait=30")["stdout"], "word-one\n", "it ran once")
    other = trial.sandbox()
    _, second = ask(other.id, "word-two")
    trial.end(other)
    trial.check(decide(second, "approve").status == 409, "for a sandbox that has ended")
    trial.check(decide("apr_" + "0" * 20, "approve").status in (400, 404), "an approval that never was")
