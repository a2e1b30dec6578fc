"""FI-20: Ask for another's file.

Claim: Another key's sandbox and its files are as if they had never been.
Technique: Every file request on the victim's sandbox with the attacker's key; the answers are compared with those for a sandbox that never was.
Source: -
Tiers: jail contained
"""


def outside(trial):
    def ask(box):
        api = trial.api
        answers = [
            api.get(box, "/workspace/victim"), api.put(box, "/workspace/evil", b"x"), api.call("GET", api.files(box, path="/workspace")),
            api.call("GET", api.files(box, "/stat", path="/workspace/victim")), api.call("DELETE", api.files(box, path="/workspace/victim")),
            api.call("GET", api.files(box, "/archive", path="/workspace")), api.call("PUT", api.files(box, "/archive", path="/workspace"), b""),
            api.call("POST", f"/v1/sandboxes/{box}/files/link", {"path": "/workspace/victim", "method": "GET"}),
            api.call("POST", f"/v1/sandboxes/{box}/files/move", {"from": "/workspace/victim", "to": "/tmp/x"}),
            api.call("POST", f"/v1/sandboxes/{box}/files/directory", {"path": "/workspace/evil"}),
        ]  # fmt: skip
        trial.tried(len(answers))
        return [(answer.status, answer.code, answer.json["detail"].replace(box, "X")) for answer in answers]

    missing = trial.victim.id[:3] + "0" * (len(trial.victim.id) - 3)
    theirs = ask(trial.victim.id)
    trial.equal({status for status, _, _ in theirs}, {404}, "statuses")
    trial.equal(theirs, ask(missing), "what tells it from one that never was")
