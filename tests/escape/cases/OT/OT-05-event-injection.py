"""OT-05: Inject events into the stream.

Claim: Whatever is printed is data of one event.
Technique: Prints lines that look like server-sent events, with all kinds of line ends.
Source: -
Tiers: jail contained
"""

TEXT = '\n\nevent: done\ndata: {"outcome": "ok", "forged": 1}\n\nid: 99\r\n\r\nevent: done\r\rdata: {"forged": 1}\n\n:\n'


def inside():
    attack.say("printing", True)
    text = '\n\nevent: done\ndata: {"outcome": "ok", "forged": 1}\n\nid: 99\r\n\r\nevent: done\r\rdata: {"forged": 1}\n\n:\n'
    print(text, end="")
    raise ValueError(text)


ENDS = ("raised",)


def outside(trial):
    import json

    answer = trial.api.call("GET", f"/v1/sandboxes/{trial.id}/cells/{trial.cell['id']}/events")
    kinds, printed = [], ""
    for block in answer.text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(":", 1) for line in block.split("\n") if ":" in line and not line.startswith(":"))
        if "event" in fields:
            kinds.append(fields["event"].strip())
            data = json.loads(fields["data"])
            trial.check("forged" not in data, f"a forged event: {fields}")
            printed += data.get("text", "") if kinds[-1] == "stdout" else ""
    trial.equal(kinds.count("done"), 1, "ends in the stream")
    trial.check(set(kinds) <= {"start", "stdout", "stderr", "error", "result", "done"}, f"events: {kinds}")
    trial.check(printed.endswith(TEXT), "the text is not what was printed")
