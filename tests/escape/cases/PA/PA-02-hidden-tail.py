"""PA-02: Hide code from the approver.

Claim: The approver is shown the whole text, escaped, with its digest, and a finding about characters that change the direction of lines.
Technique: Five hundred blank lines, carriage returns, escapes and bidi marks before the dangerous line.
Source: -
Tiers: jail contained
"""

ASKS = 'name = "asks"\nextends = "open"\n[[rule]]\nid = "x"\nkind = "call"\nseverity = "low"\naction = "ask"\nnames = ["os.remove"]\nwhy = "{name} removes"\n'


def outside(trial):
    trial.finally_do(trial.deny_waiting)
    import hashlib

    code = "print('harmless')  # \u202e\u2066 ok\n" + "\n" * 500 + "x = 1  # \x1b[2K\x1b[1A\nimport os; os.remove('/tmp/HIDDEN')"
    trial.api.want(202, "POST", f"/v1/sandboxes/{trial.id}/cells", {"code": code, "policy": ASKS})
    answer = trial.server.admin.call("GET", "/v1/approvals")
    trial.tried()
    shown = [one for one in answer.json["approvals"] if "HIDDEN" in one["code"]]
    trial.equal(len(shown), 1, "questions")
    trial.equal(shown[0]["code"], code, "the text that is shown")
    trial.equal(shown[0]["sha256"], hashlib.sha256(code.encode()).hexdigest(), "its digest")
    trial.check(b"\x1b" not in answer.body, "an escape is not escaped")
    trial.check(shown[0]["findings"], "nothing was found")
