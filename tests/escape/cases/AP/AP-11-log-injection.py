"""AP-11: Write lines into the log and the audit.

Claim: What a client names something is one value in one record.
Technique: Metadata, names, agents, codes and paths with line ends and JSON in them.
Source: -
Tiers: jail contained
"""


def outside(trial):
    import json

    evil = '\n{"event":"approve","forged":true}\r\n\x1b[2K'
    box = trial.sandbox(metadata={"label": evil, evil: "x"})
    trial.api.cell(box.id, f"# {evil!r}\nprint(1)")
    trial.api.call("GET", "/v1/x%0a%7b%22forged%22%3atrue%7d", headers={"User-Agent": "x\u00e9{\"forged\":true}"})
    trial.server.admin.call("POST", "/v1/keys", {"name": evil})
    trial.tried(4)
    for line in trial.server.log().decode("utf-8", "replace").splitlines():
        if line.strip():
            trial.check("forged" not in json.loads(line) and "\x1b" not in line, f"a line of the log: {line[:120]!r}")
    answer = trial.server.admin.call("GET", f"/v1/audit?sandbox={box.id}")
    trial.check(answer.status == 200 and b"\x1b" not in answer.body, "the audit")
