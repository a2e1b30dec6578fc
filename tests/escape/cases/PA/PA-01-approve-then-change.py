"""PA-01: Have one thing approved and run another.

Claim: An approval is of one text in one sandbox; nothing else can run by it.
Technique: Approves with the digest of other code; changes files and the waiting cell's sandbox between question and answer; sends other code with the same names.
Source: -
Tiers: jail contained
"""

ASKS = 'name = "asks"\n[[rule]]\nid = "x"\nkind = "call"\nseverity = "low"\naction = "ask"\nnames = ["os.remove"]\nwhy = "{name} removes"\n'


def outside(trial):
    trial.finally_do(trial.deny_waiting)
    import hashlib

    code = "import os\nopen('ran', 'w').close()\nos.remove('ran')\nprint('APPROVED')"
    base = f"/v1/sandboxes/{trial.id}"
    cell = trial.api.want(202, "POST", f"{base}/cells", {"code": code, "policy": ASKS})
    waiting = [one for one in trial.server.admin.want(200, "GET", "/v1/approvals")["approvals"] if one["code"] == code]
    trial.equal(len(waiting), 1, "questions")
    identity = waiting[0]["id"]
    other = hashlib.sha256(b"import os; os.system('evil')").hexdigest()
    answer = trial.server.admin.call("POST", f"/v1/approvals/{identity}/approve", {"sha256": other})
    trial.tried()
    trial.check(answer.status in (400, 409), f"with another digest: {answer.status}")
    trial.check(trial.api.want(200, "GET", f"{base}/cells/{cell['id']}")["state"] == "awaiting_approval", "it runs already")
    again = trial.api.want(202, "POST", f"{base}/cells", {"code": code + "\nprint('MORE')", "policy": ASKS})
    trial.equal(trial.server.admin.call("POST", f"/v1/approvals/{identity}/approve", {"sha256": waiting[0]["sha256"]}).status, 200, "the right digest")
    ended = trial.api.want(200, "GET", f"{base}/cells/{cell['id']}?wait=30")
    trial.equal((ended["state"], ended["stdout"]), ("done", "APPROVED\n"), "what was approved")
    trial.equal(trial.api.want(200, "GET", f"{base}/cells/{again['id']}")["state"], "awaiting_approval", "the other one")
