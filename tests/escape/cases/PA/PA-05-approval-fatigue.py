"""PA-05: Request approvals until one is given.

Claim: A key has a bounded number of pending approvals, and code without a decision does not run.
Technique: Asks far more often than allowed, and looks at what ran.
Source: 93 % of prompts are approved
Tiers: jail bounded
"""

ASKS = 'name = "asks"\n[[rule]]\nid = "x"\nkind = "call"\nseverity = "low"\naction = "ask"\nnames = ["os.remove"]\nwhy = "{name} removes"\n'


def outside(trial):
    trial.finally_do(trial.deny_waiting)
    base = f"/v1/sandboxes/{trial.id}"
    statuses = []
    for number in range(40):
        body = {"code": f"import os; open('ran{number}', 'w').close(); os.remove('x')", "policy": ASKS}
        statuses.append(trial.api.call("POST", f"{base}/cells", body).status)
        trial.tried()
    trial.check(set(statuses) == {202, 429} and statuses.count(202) <= 20, f"statuses: {statuses}")
    trial.equal(trial.ask("import os; print([n for n in os.listdir('.') if n.startswith('ran')])"), "[]", "what ran")
