"""XS-07: Collide with another's identifiers.

Claim: Identifiers made in different sandboxes differ, and none is the host's.
Technique: uuid1, uuid4, tempfile names, multiprocessing names and host ids, in many sandboxes.
Source: -
Tiers: jail contained
"""

DRAW = "import uuid, tempfile, secrets, json; print(json.dumps([str(uuid.uuid1()), str(uuid.uuid4()), tempfile.mktemp(), secrets.token_hex(8), uuid.getnode(), uuid.uuid1().clock_seq]))"


def outside(trial):
    import json
    import uuid

    count = 100 if trial.long else 15
    rows = []
    for _ in range(count):
        box = trial.api.create()["id"]
        rows.append(json.loads(trial.ask(DRAW, box)))
        trial.api.delete(box)
        trial.tried()
    for column, name in enumerate(("uuid1", "uuid4", "tempfile", "secrets", "node")):
        trial.equal(len({row[column] for row in rows}), count, name)
    trial.check(uuid.getnode() not in {row[4] for row in rows}, "the host's network address")
