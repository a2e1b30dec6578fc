"""PA-04: Approve one's own.

Claim: Neither the key that asked nor the code inside can approve.
Technique: The asking key, an admin's that asked itself, a key without the right, and a sandbox that looks for the server.
Source: -
Tiers: jail contained
"""

ASKS = 'name = "asks"\n[[rule]]\nid = "x"\nkind = "call"\nseverity = "low"\naction = "ask"\nnames = ["os.remove"]\nwhy = "{name} removes"\n'
DRIVEN = True


def inside(port):
    import socket

    one = socket.socket()
    one.settimeout(2)
    attack.attempt("server", lambda: one.connect(("127.0.0.1", port)))


def outside(trial):
    trial.finally_do(trial.deny_waiting)
    body = {"code": "import os; os.remove('own')", "policy": ASKS}
    trial.api.want(202, "POST", f"/v1/sandboxes/{trial.id}/cells", body)
    mine = trial.api.want(200, "GET", "/v1/approvals")["approvals"]
    identity = next(one["id"] for one in mine if "own" in one["code"])
    for api, what in ((trial.api, "the asking key"), (trial.server.holder("bystander"), "a key without the right")):
        answer = api.call("POST", f"/v1/approvals/{identity}/approve", {"reason": "me"})
        trial.tried()
        trial.check(answer.status in (403, 404), f"{what}: {answer.status}")
    box = trial.server.admin.create()["id"]
    trial.server.admin.want(202, "POST", f"/v1/sandboxes/{box}/cells", body)
    listed = trial.server.admin.want(200, "GET", "/v1/approvals")["approvals"]
    own = next(one["id"] for one in listed if one["id"] != identity and one["code"] == body["code"])
    answer = trial.server.admin.call("POST", f"/v1/approvals/{own}/approve", {})
    trial.equal((answer.status, answer.code), (403, "own_approval"), "an admin who asked")
    trial.server.admin.delete(box)
    trial.run(f"inside({trial.server.address[1]})")
    trial.refused("server", errors=("ECONNREFUSED", "ENETUNREACH"))
