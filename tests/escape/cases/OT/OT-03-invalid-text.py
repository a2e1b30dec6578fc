"""OT-03: Print what is no text.

Claim: Whatever bytes are printed, answers are valid JSON and valid UTF-8.
Technique: Broken UTF-8, surrogates, zero bytes, half characters across writes, all 256 bytes.
Source: -
Tiers: jail contained
"""


def inside():
    import os

    attack.say("printing", True)
    for data in (b"\xff\xfe\x00\xed\xa0\x80\n", bytes(range(256)), b"\xf0\x9f", b"\x98\x80", b"\xc0\xaf\xe0\x80\xaf", b"\xe2\x80\xa8\xe2\x80\xa9"):
        os.write(1, data)
        os.write(2, data)


def outside(trial):
    import json

    answer = trial.api.call("GET", f"/v1/sandboxes/{trial.id}/cells/{trial.cell['id']}")
    answer.body.decode("utf-8")
    trial.check(json.loads(answer.body)["stdout"], "the output is gone")
    events = trial.api.call("GET", f"/v1/sandboxes/{trial.id}/cells/{trial.cell['id']}/events")
    for line in events.body.decode("utf-8").split("\n"):
        if line.startswith("data:"):
            json.loads(line[5:])
